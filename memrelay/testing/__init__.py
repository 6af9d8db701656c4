"""Tests of blocks and pipelines without a server (docs/testing.md).

It imports no test framework. Each name loads its modules when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memrelay.testing.calls import NoAnswer, Requested
    from memrelay.testing.pipeline import (
        BlockingPipelineUnderTest,
        MessageFailed,
        PipelineUnderTest,
        test_pipeline,
    )
    from memrelay.testing.single_block import run_block

__all__ = [
    "BlockingPipelineUnderTest",
    "MessageFailed",
    "NoAnswer",
    "PipelineUnderTest",
    "Requested",
    "run_block",
    "test_pipeline",
]

_MODULES = {
    "BlockingPipelineUnderTest": "memrelay.testing.pipeline",
    "MessageFailed": "memrelay.testing.pipeline",
    "NoAnswer": "memrelay.testing.calls",
    "PipelineUnderTest": "memrelay.testing.pipeline",
    "Requested": "memrelay.testing.calls",
    "run_block": "memrelay.testing.single_block",
    "test_pipeline": "memrelay.testing.pipeline",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)

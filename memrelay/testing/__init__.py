"""Tests of blocks and pipelines without a server (docs/testing.md).

It imports no test framework. Each name loads its modules when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memrelay.testing.single_block import run_block

__all__ = ["run_block"]

_MODULES = {"run_block": "memrelay.testing.single_block"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)

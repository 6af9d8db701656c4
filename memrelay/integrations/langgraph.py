"""LangGraph's checkpoint saver and store on Memrelay. They need the extra `agents`."""

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from memrelay.installation import install_extra

if TYPE_CHECKING:
    from memrelay.agents.saver import MemrelaySaver
    from memrelay.agents.store import MemrelayStore

__all__ = ["MemrelaySaver", "MemrelayStore"]

_MODULES = {
    "MemrelaySaver": "memrelay.agents.saver",
    "MemrelayStore": "memrelay.agents.store",
}

if find_spec("langgraph") is None or find_spec("langgraph.checkpoint") is None:
    raise ImportError(f"memrelay.integrations.langgraph needs LangGraph: {install_extra('agents')}")


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Memory for agents on a message bus: the public Python API (docs/python.md).

Every import of a submodule runs this file, so it loads a public name when it is first used. A
worker, for example, must not load aiohttp.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memrelay import errors
    from memrelay.blocks.async_call import AsyncCall
    from memrelay.blocks.contract import (
        BlockArgs,
        Call,
        DeferredCall,
        RunningCall,
        SecretReference,
        Transient,
    )
    from memrelay.blocks.memory_args import MemoryArgs
    from memrelay.blocks.registry import block
    from memrelay.bus.message import Message
    from memrelay.client.http import BlockingClient, Client, connect, connect_sync
    from memrelay.embedded.store import EmbeddedStore, open_store

__all__ = [
    "AsyncCall",
    "BlockArgs",
    "BlockingClient",
    "Call",
    "Client",
    "DeferredCall",
    "EmbeddedStore",
    "MemoryArgs",
    "Message",
    "RunningCall",
    "SecretReference",
    "Transient",
    "block",
    "connect",
    "connect_sync",
    "errors",
    "open_store",
]

_MODULES = {
    "AsyncCall": "memrelay.blocks.async_call",
    "BlockArgs": "memrelay.blocks.contract",
    "BlockingClient": "memrelay.client.http",
    "Call": "memrelay.blocks.contract",
    "Client": "memrelay.client.http",
    "EmbeddedStore": "memrelay.embedded.store",
    "DeferredCall": "memrelay.blocks.contract",
    "MemoryArgs": "memrelay.blocks.memory_args",
    "Message": "memrelay.bus.message",
    "RunningCall": "memrelay.blocks.contract",
    "SecretReference": "memrelay.blocks.contract",
    "Transient": "memrelay.blocks.contract",
    "block": "memrelay.blocks.registry",
    "connect": "memrelay.client.http",
    "connect_sync": "memrelay.client.http",
    "open_store": "memrelay.embedded.store",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("memrelay.errors")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

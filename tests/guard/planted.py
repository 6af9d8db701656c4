"""A block that writes as `memory_write` does and costs a little more, for the test of the guard."""

from types import FunctionType
from typing import Any

import apsw

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_write import WriteArgs, memory_write
from memrelay.blocks.registry import block
from memrelay.bus.message import Message

PLANTED_BLOCK = "guard_write"
# The last one is that of the pipeline's store.
_connections: list[apsw.Connection] = []


def register_planted_block() -> None:
    """Make the block known to bundles."""
    apsw.connection_hooks.append(_note_connection)
    block(PLANTED_BLOCK, WriteArgs)(_write)


def _note_connection(connection: apsw.Connection) -> None:
    if connection.filename:  # it is not in memory
        _connections.append(connection)


def _write(call: Call, args: WriteArgs) -> Message:
    """Write after one more call and one more statement."""
    _extra_call()
    _connections[-1].execute("SELECT 1").fetchall()
    return memory_write(call, args)


def _nothing() -> None:
    """Do nothing."""


# By its globals, this function belongs to `memrelay.blocks`.
_extra_call: Any = FunctionType(_nothing.__code__, {"__name__": "memrelay.blocks.planted"})

"""Calls of blocks for tests: a message from the wire, and the block's result as an envelope."""

from itertools import count
from typing import Any

import orjson

from memrelay.blocks.contract import Agent, BlockArgs, Call, Limits
from memrelay.blocks.registry import built_in_blocks
from memrelay.bus.codec import decode, encode
from memrelay.bus.message import Message
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from memrelay.memory.records.ids import derive_guid

UID = "a3d8f1b2"
MEMORY_ID = f"instances/{UID}/memories"
NOW = 1_700_000_000_000  # Unix ms
MESSAGE_BYTES = 1 << 20

_inputs = count(1)


class Ids:
    """Makes the ids of one input as the worker does."""

    def __init__(self, input_id: str) -> None:
        self.input_id, self._indexes = input_id, count(1)

    def new_guid(self, alias: str) -> str:
        return derive_guid(UID, self.input_id, alias, next(self._indexes))

    def next_deferred_call_id(self) -> str:
        return f"{UID}/{self.input_id}.0+0"

    def open_for_read(self, memory_id: str) -> Any:
        raise Refused(f"no store {memory_id!r} is open in these tests")

    def secret(self, reference: str) -> str:
        raise LookupError(f"{reference} is not set in these tests")


def make_message(text: str | None = "tea", **part: Any) -> Message:
    """Return a message of one part; None omits its text."""
    said = {"username": "Ann", "timestamp": NOW - 5, "type": "text/plain"} | (
        {} if text is None else {"text": text}
    )
    return decode(
        orjson.dumps({"from": "User", "id": "user-alias", "args": [said | part]}), 64 << 20
    )


def make_call(
    message: Message,
    tx: Store | None = None,
    *,
    input_id: str = "",
    now_ms: int = NOW,
    message_bytes: int = MESSAGE_BYTES,
) -> Call:
    agent = Agent(UID, "keeper", "dispatch", "Keeper", True)
    return Call(
        agent, message, now_ms, Limits(message_bytes), Ids(input_id or f"{NOW}-{next(_inputs)}"), tx
    )


def args_of(block: str, **args: Any) -> BlockArgs:
    return built_in_blocks()[block].args.model_validate(args)


def answer(block: str, call: Call, **args: Any) -> dict[str, Any] | None:
    """Return the envelope of the result. A refusal becomes an error message, as in the worker."""
    handle = built_in_blocks()[block].handle
    assert handle is not None
    try:
        said = handle(call, args_of(block, **args))
    except Refused as refused:
        said = call.error(str(refused))
    return None if said is None else orjson.loads(encode(said))


def ask(block: str, text: str | None = "tea", **args: Any) -> dict[str, Any] | None:
    """Return the result of a block without a store."""
    return answer(block, make_call(make_message(text)), **args)


def ask_store(
    block: str, text: str | None, store: Store, *, memory_id: str = MEMORY_ID, **args: Any
) -> Any:
    """Run a memory block in a transaction and return the JSON of its result."""
    return read_json(envelope(block, text, store, memory_id=memory_id, **args))


def envelope(
    block: str,
    text: str | None,
    store: Store,
    *,
    message_bytes: int = MESSAGE_BYTES,
    now_ms: int = NOW,
    **args: Any,
) -> dict[str, Any]:
    """Run a memory block in a transaction and return the envelope of its result."""
    with store.transaction() as tx:
        said = answer(
            block,
            make_call(make_message(text), tx, message_bytes=message_bytes, now_ms=now_ms),
            **args,
        )
    assert said is not None
    return said


def read_json(said: dict[str, Any]) -> Any:
    """Return the JSON in an envelope with that media type."""
    (part,) = said["args"]
    assert part["type"] == "application/json"
    return orjson.loads(part["text"])

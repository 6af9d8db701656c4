"""Calls of the blocks of agent memory with trusted fields, for tests."""

from typing import Any

import orjson

from memrelay.bus.codec import decode
from memrelay.memory.engine.store import Store
from tests.blocks.calls import answer, make_call

MAX_BYTES = 64 << 20


def ask(
    tx: Store,
    block: str,
    text: str,
    args: dict[str, Any] | None = None,
    part: dict[str, Any] | None = None,
    *,
    vouched: tuple[str, ...] = (),
    **more: Any,
) -> str:
    """Return the text of the block's answer. `vouched` names trusted fields of the part."""
    said = {"username": "Ann", "text": text, "timestamp": 1, "type": "text/plain"} | (part or {})
    envelope = {"from": "User", "id": "m1", "args": [said]}
    message = decode(orjson.dumps(envelope), MAX_BYTES, vouched)
    found = answer(block, make_call(message, tx, **more), **(args or {}))
    assert found is not None
    shown: str = found["args"][0]["text"]
    return shown

"""JSON values of sources: how they are stored and read."""

from typing import Any

import orjson

from memrelay.memory.errors import RecordDamaged
from memrelay.memory.models.shared_stores.item import encode


def to_json(value: Any) -> str:
    """Return a value as it is stored. Raises BadValue and ValueTooLarge."""
    # In a list, a text is JSON too.
    text, _ = encode([value], "", in_context=True, encrypted=False)
    return text[1:-1]


def from_json(text: str, place: str) -> Any:
    """Return a stored value. Raises RecordDamaged."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise RecordDamaged(
            f"{place} is damaged: {error}; write it again, and run `memrelay scrub` to find more "
            "damage"
        ) from error

"""JSON that a record keeps, its tags and its `data`, as it is read: what a disk has changed is told
of that record."""

from typing import Any

import orjson

from memory.errors import RecordDamaged
from memory.record import Further, Record


def kept_json(text: str, guid: str) -> Any:
    """What it says. Raises RecordDamaged."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise RecordDamaged(
            f"record {guid} is damaged: {error} in its tags or `data`, {text[:40]!r}; records.update gives it "
            "others, `memrelay scrub` looks for more of it"
        ) from error


def kept_data(record: Record, further: Further) -> dict[str, Any]:
    """A record's `data`; {} where it has none. Raises RecordDamaged."""
    found: dict[str, Any] = kept_json(further.data, record.guid) if further.data else {}
    return found

"""Internal values in the lines of an export: seal them before an import, and find sealed ones."""

from typing import Any, NamedTuple

import orjson

from memrelay.memory.errors import ValueTooLarge
from memrelay.memory.files.uid_placeholder import UID, replace_uid
from memrelay.memory.records.kinds import ITEM_KIND
from memrelay.memory.sealed_text import Place, Sealer, is_sealed


class InternalLine(NamedTuple):
    """A line with an internal value that the client did not encrypt."""

    parsed: dict[str, Any]
    # The field of the line that holds the entry: `record`, or `version` for an earlier state.
    sort: str
    # The entry's `data`.
    stored: dict[str, Any]
    place: Place

    @property
    def value(self) -> Any:
        """The value as stored."""
        return self.stored["value"]


def find_internal(uid: str, line: str) -> InternalLine | None:
    """Return a line with an internal value, None for any other line."""
    if ITEM_KIND not in line:
        return None
    try:
        parsed = orjson.loads(line)
        sort = next((name for name in ("record", "version") if parsed.get(name)), "")
        entry = parsed.get(sort) or {}
        stored = orjson.loads(entry.get("data") or "{}")
    except (orjson.JSONDecodeError, AttributeError):
        return None  # the operation reports it
    if entry.get("kind") != ITEM_KIND or entry.get("in_context") or entry.get("encrypted"):
        return None
    if not isinstance(stored, dict) or "value" not in stored:
        return None
    address = {"store": replace_uid(str(entry.get("scope")), UID, uid), "key": entry.get("key")}
    place = Place.of(uid, stored | address, entry.get("owner") or "")
    return InternalLine(parsed, sort, stored, place)


def seal_line(sealer: Sealer, uid: str, line: str) -> str:
    """Return a line with its internal value sealed, or the line itself if it has none.

    The same value gives the same text, so that an import can be repeated. Raises ValueTooLarge.
    """
    found = find_internal(uid, line)
    if found is None or is_sealed(found.value):
        return line
    entry = found.parsed[found.sort]
    try:
        sealed = sealer.seal(found.value, found.place, f"import {entry.get('guid')}")
    except ValueTooLarge as error:
        raise ValueTooLarge(f"{found.place.key!r} in store {found.place.store!r}: {error}") from (
            error
        )
    data = orjson.dumps(found.stored | {"value": sealed}).decode()
    return orjson.dumps(found.parsed | {found.sort: entry | {"data": data}}).decode()

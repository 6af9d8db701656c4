"""Lines of an export about named memories, and the parts of the lines of their entries."""

from collections.abc import Callable
from typing import Annotated, Self

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from memrelay.memory.records.export_fields import ExportedRow, Int, RecordPart, Time
from memrelay.memory.records.ids import HEX, uid_of

# The lines of entries are derived again from the records, which may be lost or repaired.
RESET_ENTRIES = (
    "DELETE FROM main.entries WHERE guid NOT IN "
    "(SELECT guid FROM main.records WHERE kind = 'entry');"
    "UPDATE main.entries SET digested = 0, "
    "memory = (SELECT scope FROM main.records AS r WHERE r.guid = entries.guid)"
)


class ExportedMemory(ExportedRow, frozen=True, omit_defaults=True):
    """A named memory. `tags` is a JSON array."""

    id: Annotated[str, Meta(pattern=f"^mem_.+_{HEX.pattern}$")]
    name: str
    created_at: Time
    updated_at: Time
    description: str | None = None
    tags: str | None = None

    def normalize(self) -> Self:
        """Check the tags."""
        _decode_tags(self.tags or "[]")
        return self

    def complete(self, find_existing: Callable[[], Self | None], now_ms: int) -> Self:
        """Return the memory with the times of the existing one, or of the import."""
        if self.created_at:
            return self
        existing = find_existing()
        if existing is None:
            return replace(self, created_at=now_ms, updated_at=now_ms)
        return replace(self, created_at=existing.created_at, updated_at=existing.updated_at)

    def owner_uid(self) -> str | None:
        """Return the uid in the id."""
        return uid_of("mem", self.id)

    def describe(self, key: tuple[str, ...]) -> str:
        """Return the id, which needs no quotes."""
        return self.id


class Confirmations(RecordPart, frozen=True):
    """How often an entry was written again, and the last time, Unix ms."""

    TABLE = "entries"
    COLUMNS = ("confirmations", "confirmed_at")
    CONDITION = "confirmations <> 0"
    WRITE = (
        "INSERT INTO entries(guid, memory, confirmations, confirmed_at) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (guid) DO UPDATE SET confirmations = excluded.confirmations, "
        "confirmed_at = excluded.confirmed_at"
    )

    times: Int
    last: Time | None


_decode_tags = msgspec.json.Decoder(list[str]).decode

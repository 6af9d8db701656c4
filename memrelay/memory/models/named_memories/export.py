"""Lines of an export about named memories, the parts of the lines of their entries, and the format
of mem0, which an import reads again.
"""

from collections.abc import Callable, Iterable, Iterator
from hashlib import md5
from typing import Annotated, Any, Self

import msgspec
import orjson
from msgspec import Meta
from msgspec.structs import replace

from memrelay.memory.engine.records import RecordTable
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.models.named_memories.memories import KIND
from memrelay.memory.models.named_memories.table import admit_memory
from memrelay.memory.records.data import load_json
from memrelay.memory.records.export_fields import (
    ExportedLine,
    ExportedRow,
    Int,
    LineWriter,
    RecordPart,
    Time,
    Written,
)
from memrelay.memory.records.ids import HEX, uid_of

# The lines of entries are derived again from the records, which may be lost or repaired.
RESET_ENTRIES = (
    "DELETE FROM main.entries WHERE guid NOT IN "
    "(SELECT guid FROM main.records WHERE kind = 'entry');"
    "UPDATE main.entries SET digested = 0, "
    "memory = (SELECT scope FROM main.records AS r WHERE r.guid = entries.guid);"
    "UPDATE main.entries_seen SET row = 0"
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

    def admit(self, records: RecordTable) -> Self:
        """Return the memory as `memories.create` would write it. Raises PolicyStop."""
        description, tags = admit_memory(records, self.name, self.description, self.tags)
        return replace(self, description=description, tags=tags)

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


# The key in `data` of fields of mem0 without a place in a record, and the first part of the names
# of imported memories.
MEM0 = "mem0"
NAMES = ("user_id", "agent_id", "run_id")


def write_mem0(file: LineWriter, lines: Iterable[ExportedLine]) -> Written:
    """Write the entries of named memories as the answer of mem0 to `get_all`."""
    count = 0
    file.write(b'{"results":[')
    for one in _mem0_objects(lines):
        file.write((b",\n" if count else b"\n") + orjson.dumps(one))
        count += 1
    file.write(b"\n]}\n")
    return Written(count, "fact")


def _mem0_objects(lines: Iterable[ExportedLine]) -> Iterator[dict[str, Any]]:
    names: dict[str, str] = {}
    for line in lines:
        if isinstance(line.row, ExportedMemory):
            names[line.row.id] = line.row.name
        elif line.record is not None and line.kind == KIND:
            yield _mem0_object(line.record, names.get(line.record.scope, ""))


def _mem0_object(entry: Any, memory: str) -> dict[str, Any]:
    metadata = load_json(entry.data or "{}", entry.guid)
    others = metadata.pop(MEM0, None)
    others = others if isinstance(others, dict) else {}
    text = entry.content or ""
    fact = {
        "id": entry.guid,
        "memory": text,
        "hash": md5(text.encode(), usedforsecurity=False).hexdigest(),
        "metadata": metadata or None,
        "created_at": format_time(entry.created_at),
        "updated_at": _time(entry.updated_at if entry.updated_at != entry.created_at else None),
        "user_id": entry.owner,
        "run_id": entry.thread,
        "expiration_date": _time(entry.expires_at),
    }
    fact = {name: value for name, value in fact.items() if value is not None} | others
    if not any(fact.get(name) for name in NAMES):
        fact["user_id"] = memory.removeprefix(f"{MEM0}/")
    return fact


def _time(unix_ms: int | None) -> str | None:
    return None if unix_ms is None else format_time(unix_ms)

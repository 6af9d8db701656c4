"""Write the entries of named memories in the format of mem0, which an import reads again."""

from collections.abc import Iterable, Iterator
from hashlib import md5
from typing import Any

import orjson

from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.models.named_memories.export import ExportedMemory
from memrelay.memory.models.named_memories.memories import KIND
from memrelay.memory.records.data import load_json
from memrelay.memory.records.export_fields import ExportedLine, LineWriter, Written

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

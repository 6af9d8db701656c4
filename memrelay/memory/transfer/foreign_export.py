"""Write memories in the formats of other systems, which memory/importers reads again.

The home of the lines, `memories` or `recipes`, is in FORMATS.
"""

from collections.abc import Callable, Iterable, Iterator
from hashlib import md5
from typing import Any, NamedTuple

import orjson

from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.models.recipes.graph.observations import ENTITY_GRAPH, read_observations
from memrelay.memory.models.recipes.graph.table import scope_of
from memrelay.memory.records.data import load_json
from memrelay.memory.records.kinds import NODE_KIND
from memrelay.memory.transfer.export import Exported, Line, LineWriter

# The key in `data` of fields of mem0 without a place in a record, and the first part of the names
# of imported memories.
MEM0 = "mem0"
NAMES = ("user_id", "agent_id", "run_id")


class Written(NamedTuple):
    """The number of objects in the file, and their name."""

    total: int
    noun: str


def write_mcp(file: LineWriter, lines: Iterable[Line]) -> Written:
    """Write the graph `mcp` as the `memory.jsonl` of the official MCP memory server."""
    count = 0
    for one in filter(None, map(_graph_object, lines)):
        file.write((b"\n" if count else b"") + orjson.dumps(one))
        count += 1
    return Written(count, "line")


def write_mem0(file: LineWriter, lines: Iterable[Line]) -> Written:
    """Write the entries of named memories as the answer of mem0 to `get_all`."""
    count = 0
    file.write(b'{"results":[')
    for one in _mem0_objects(lines):
        file.write((b",\n" if count else b"\n") + orjson.dumps(one))
        count += 1
    file.write(b"\n]}\n")
    return Written(count, "fact")


class Format(NamedTuple):
    """A format of another system, and the home of the data."""

    write: Callable[[LineWriter, Iterable[Line]], Written]
    home: str


FORMATS = {"mcp": Format(write_mcp, "recipes"), MEM0: Format(write_mem0, "memories")}


def _graph_object(line: Line) -> dict[str, Any] | None:
    """Return an entity or a relation, None for another line."""
    node, edge = line.record, line.edge
    if edge is not None and edge.instance == ENTITY_GRAPH:
        names = {"from": edge.from_node, "to": edge.to_node}
        return {"type": "relation", **names, "relationType": edge.kind}
    if node is None or (node.kind, node.scope) != (NODE_KIND, scope_of(ENTITY_GRAPH)):
        return None
    data = load_json(node.data or "{}", node.guid)
    return {
        "type": "entity",
        "name": node.key,
        "entityType": data["kind"],
        "observations": read_observations(data, node.content or ""),
    }


def _mem0_objects(lines: Iterable[Line]) -> Iterator[dict[str, Any]]:
    names: dict[str, str] = {}
    for line in lines:
        if line.memory is not None:
            names[line.memory.id] = line.memory.name
        elif line.is_entry and line.record is not None:
            yield _mem0_object(line.record, names.get(line.record.scope, ""))


def _mem0_object(entry: Exported, memory: str) -> dict[str, Any]:
    metadata = load_json(entry.data or "{}", entry.guid)
    others = metadata.pop(MEM0, None)
    others = others if isinstance(others, dict) else {}
    text = entry.content or ""
    found = {
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
    found = {name: value for name, value in found.items() if value is not None} | others
    if not any(found.get(name) for name in NAMES):
        found["user_id"] = memory.removeprefix(f"{MEM0}/")
    return found


def _time(unix_ms: int | None) -> str | None:
    return None if unix_ms is None else format_time(unix_ms)

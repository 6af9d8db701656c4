"""Write a graph in the format of the official MCP memory server, which an import reads again."""

from collections.abc import Iterable
from typing import Any

import orjson

from memrelay.memory.models.recipes import NODE_KIND
from memrelay.memory.models.recipes.export import ExportedEdge
from memrelay.memory.models.recipes.graph.nodes import ENTITY_GRAPH, read_observations
from memrelay.memory.models.recipes.table import make_node_scope
from memrelay.memory.records.data import load_json
from memrelay.memory.records.export_fields import ExportedLine, LineWriter, Written


def write_mcp(file: LineWriter, lines: Iterable[ExportedLine]) -> Written:
    """Write the graph `mcp` as the `memory.jsonl` of the official MCP memory server."""
    count = 0
    for one in filter(None, map(_graph_object, lines)):
        file.write((b"\n" if count else b"") + orjson.dumps(one))
        count += 1
    return Written(count, "line")


def _graph_object(line: ExportedLine) -> dict[str, Any] | None:
    """Return an entity or a relation, None for another line."""
    node, edge = line.record, line.row
    if isinstance(edge, ExportedEdge) and edge.instance == ENTITY_GRAPH:
        names = {"from": edge.from_node, "to": edge.to_node}
        return {"type": "relation", **names, "relationType": edge.kind}
    if node is None or (node.kind, node.scope) != (NODE_KIND, make_node_scope(ENTITY_GRAPH)):
        return None
    data = load_json(node.data or "{}", node.guid)
    return {
        "type": "entity",
        "name": node.key,
        "entityType": data["kind"],
        "observations": read_observations(data, node.content or ""),
    }

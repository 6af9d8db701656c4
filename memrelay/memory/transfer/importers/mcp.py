"""The official MCP memory server: its `memory.jsonl`, or an answer of its tool `read_graph`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memrelay.memory.transfer.importers.json_items import (
    begins_with,
    list_of,
    read_items,
    read_list,
)
from memrelay.memory.transfer.importers.source import (
    EMPTY_TEXT,
    Edge,
    Fact,
    Fault,
    LeftOut,
    Node,
    SourceInput,
    SourceItem,
    fields_of,
    read_texts,
    source,
)

NAME = "mcp"
LISTS = {"entities": "entity", "relations": "relation"}
# Keys of an answer as a client saves it: the whole message, its result, or the parts of it.
WRAPPED = ("jsonrpc result", "structuredContent", "content.type content.text")


def detect(path: Path) -> bool:
    return begins_with(
        path, "name entityType", "relationType from to", "entities relations", *WRAPPED
    )


@source(NAME, detect)
def read(source_input: SourceInput) -> Iterator[SourceItem]:
    """Yield the entities and relations as nodes and edges, or the observations as facts."""
    for position, value in _values(source_input.file):
        if isinstance(value, Fault):
            yield value
            continue
        try:
            fields = fields_of(value)
            if source_input.target:
                yield from _facts(position, fields)
            else:
                yield _graph_item(position, fields)
        except LeftOut as error:
            yield Fault(position, str(error))


def _values(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield (position, value) of all entities and relations, each with its `type`."""
    for position, value in read_items(path, *LISTS):
        graph = _unwrap(value)
        if graph is None:
            yield position, _with_type(value, LISTS.get(list_of(position), ""))
            continue
        for key, type_ in LISTS.items():
            for place, element in read_list(graph, key, position):
                yield place, _with_type(element, type_)


def _unwrap(value: Any) -> dict[str, Any] | None:
    """Return the graph in the answer of `read_graph` to a client, None if it is no answer."""
    if not isinstance(value, dict) or value.get("type") is not None:
        return None
    answer = value.get("result", value)
    answer = answer if isinstance(answer, dict) else {}
    graph = answer.get("structuredContent")
    parts = answer.get("content")
    if graph is None and isinstance(parts, list) and parts and isinstance(parts[0], dict):
        try:
            graph = json.loads(parts[0].get("text") or "")
        except (ValueError, TypeError, RecursionError):
            return None
    return graph if isinstance(graph, dict) and LISTS.keys() & graph.keys() else None


def _with_type(value: Any, type_: str) -> Any:
    if not isinstance(value, dict) or "type" in value:
        return value
    for name, key in (("entity", "entityType"), ("relation", "relationType")):
        if not type_ and key in value:
            type_ = name
    return {**value, "type": type_} if type_ else value


def _graph_item(position: str, fields: dict[str, Any]) -> SourceItem:
    if fields.get("type") == "entity":
        name, kind = _label(fields, "name"), _label(fields, "entityType")
        observations = read_texts(fields, "observations")
        return Node(
            position=position, id=f"entity\n{name}", name=name, kind=kind, observations=observations
        )
    if fields.get("type") != "relation":
        raise LeftOut('`type` is neither "entity" nor "relation"')
    triple = [_label(fields, key) for key in ("from", "to", "relationType")]
    start, end, kind = triple
    return Edge(
        position=position,
        id="\n".join(("relation", *triple)),
        from_name=start,
        to_name=end,
        kind=kind,
    )


def _facts(position: str, fields: dict[str, Any]) -> Iterator[SourceItem]:
    """Yield a fact for each observation of an entity."""
    if fields.get("type") != "entity":
        yield Fault(position, "a relation has no text; import the graph without --as")
        return
    name, kind = _label(fields, "name"), _label(fields, "entityType")
    observations = read_texts(fields, "observations")
    if not observations:
        yield Fault(position, "the entity has no observations")
    for at, text in enumerate(observations):
        place = f"{position}, observations[{at}]"
        if not text.strip():
            yield Fault(place, EMPTY_TEXT)
            continue
        yield Fact(
            position=place,
            id=f"observation\n{name}\n{text}",
            text=f"{name}: {text}",
            memory=NAME,
            source="agent",
            data={"entity": name, "entity_type": kind},
        )


def _label(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str):
        raise LeftOut(f"`{key}` is not a text")
    return value

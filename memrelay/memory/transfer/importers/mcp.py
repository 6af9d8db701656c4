"""The official MCP memory server: the entities and relations of its `memory.jsonl`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memrelay.memory.transfer.importers.json_items import begins_with, read_items
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


def detect(path: Path) -> bool:
    return begins_with(path, "type entityType observations", "type relationType from to")


@source(NAME, detect)
def read(source_input: SourceInput) -> Iterator[SourceItem]:
    """Yield the entities and relations as nodes and edges, or the observations as facts."""
    for position, value in read_items(source_input.file):
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

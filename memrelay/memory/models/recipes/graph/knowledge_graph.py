"""Entities and relations of the graph `mcp`, as the official MCP memory server has them.

An entity is a node: its id is the name, and its kind is the type. A relation is an edge. It may
name entities that do not exist."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn, TypeVar

import orjson
from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.versions import StoredRecord
from memrelay.memory.errors import RecordNotFound, ResultTooLarge, ValueTooLarge
from memrelay.memory.field_descriptions import nested_input
from memrelay.memory.models.recipes import NODE_KIND
from memrelay.memory.models.recipes.export import ExportedEdge
from memrelay.memory.models.recipes.graph.graph import (
    ENTITY_GRAPH,
    OBSERVATIONS,
    NewNode,
    insert_node,
    read_observations,
    with_values,
)
from memrelay.memory.models.recipes.graph.views import limited
from memrelay.memory.models.recipes.instances import NewInstance, create_instance
from memrelay.memory.models.recipes.table import Edge, EdgeValues, RecipeTables, make_node_scope
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import load_json
from memrelay.memory.records.export_fields import ExportedLine, LineWriter, Written
from memrelay.memory.records.paging import take_page

Item = TypeVar("Item", "Entity", "Relation")
MOST_PER_CALL = 1000
MAX_OBSERVATIONS = 10_000
MAX_ENTITY_CHARACTERS = 1 << 20
ANY_NUMBER = 1 << 62
EntityName = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^\x00]*$")]
TypeName = Annotated[str, Field(max_length=1024, pattern=r"^[^\x00]*$")]
Observations = Annotated[tuple[str, ...], Field(max_length=MAX_OBSERVATIONS)]
EntityNames = Annotated[tuple[str, ...], Field(max_length=MOST_PER_CALL)]


@nested_input
@dataclass(frozen=True, slots=True)
class Entity:
    """An entity."""

    name: EntityName
    """The name, unique within the graph."""
    entity_type: TypeName
    """The type, for example person."""
    observations: Observations
    """What is known about the entity: texts in the order in which they were added."""


@nested_input
@dataclass(frozen=True, slots=True)
class Relation:
    """A relation between two entities."""

    from_entity: EntityName
    """The name of the entity at which the relation begins."""
    to_entity: EntityName
    """The name of the entity at which the relation ends."""
    relation_type: TypeName
    """The type, in active voice, for example knows."""


@nested_input
@dataclass(frozen=True, slots=True)
class EntityObservations:
    """Observations of one entity."""

    entity: str
    """The name of the entity."""
    observations: Observations
    """The texts."""


@dataclass(frozen=True, slots=True)
class EntityGraph:
    """Entities and relations in the order in which they were created."""

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]


@dataclass(frozen=True, slots=True)
class AddObservations:
    """The observations to add."""

    items: Annotated[tuple[EntityObservations, ...], Field(max_length=MOST_PER_CALL)]
    """Entities with their new observations, at most 1,000. Existing observations are ignored."""


@dataclass(frozen=True, slots=True)
class AddedObservations:
    """The added observations, for each of the given entities."""

    items: tuple[EntityObservations, ...]


@operation("knowledge_graph.add_observations", access="write", mutates=True, store="recipes")
def add_observations(
    tx: Transaction, additions: AddObservations, context: Context
) -> AddedObservations:
    """Add observations to entities: all, or none if an entity does not exist.

    Raises RecordNotFound: when an entity does not exist.
    Raises ValueTooLarge: when an entity would have too many or too long observations.
    """
    added = list[EntityObservations]()
    for item in additions.items:
        stored = find_entity(tx, item.entity)
        if stored is None:
            # The text is that of the official server.
            raise RecordNotFound(f"Entity with name {item.entity} not found")
        before = view_entity(stored).observations
        known = {*before}
        new = tuple(text for text in item.observations if text not in known)
        set_observations(tx, stored, (*before, *new))
        added.append(EntityObservations(item.entity, new))
    return AddedObservations(tuple(added))


@dataclass(frozen=True, slots=True)
class CreateEntities:
    """The entities to create."""

    entities: Annotated[tuple[Entity, ...], Field(max_length=MOST_PER_CALL)]
    """The entities, at most 1,000. Those whose name exists are ignored."""


@dataclass(frozen=True, slots=True)
class CreatedEntities:
    """The created entities."""

    items: tuple[Entity, ...]


@operation("knowledge_graph.create_entities", access="write", mutates=True, store="recipes")
def create_entities(tx: Transaction, new: CreateEntities, context: Context) -> CreatedEntities:
    """Create the entities whose names are new.

    Raises ValueTooLarge: when an entity has too many or too long observations.
    """
    ensure_graph(tx, context)
    created = list[Entity]()
    for entity in new.entities:
        if find_entity(tx, entity.name) is None:
            insert_node(tx, ENTITY_GRAPH, make_node(entity), context)
            created.append(entity)
    if created:
        ids = [entity.name for entity in created]
        tx.records.announce(
            "node.added" if len(ids) == 1 else "nodes.added", ENTITY_GRAPH, {"ids": ids}
        )
    return CreatedEntities(tuple(created))


@dataclass(frozen=True, slots=True)
class CreateRelations:
    """The relations to create."""

    relations: Annotated[tuple[Relation, ...], Field(max_length=MOST_PER_CALL)]
    """The relations, at most 1,000. Existing ones are ignored. Their entities need not exist."""


@dataclass(frozen=True, slots=True)
class CreatedRelations:
    """The created relations."""

    items: tuple[Relation, ...]


@operation("knowledge_graph.create_relations", access="write", mutates=True, store="recipes")
def create_relations(tx: Transaction, new: CreateRelations, context: Context) -> CreatedRelations:
    """Create the relations that do not exist yet."""
    ensure_graph(tx, context)
    table = tx.table(RecipeTables).graph
    existing = table.equal_edges(ENTITY_GRAPH, map(edge_values, new.relations))
    present = {*map(view_relation, existing)}
    created = [one for one in dict.fromkeys(new.relations) if one not in present]
    edges = [
        Edge(context.new_guid(), *edge_values(relation), context.now_ms) for relation in created
    ]
    table.insert_edges(ENTITY_GRAPH, edges)
    if edges:
        ids = [edge.id for edge in edges]
        tx.records.announce(
            "edge.added" if len(ids) == 1 else "edges.added", ENTITY_GRAPH, {"ids": ids}
        )
    return CreatedRelations(tuple(created))


@dataclass(frozen=True, slots=True)
class DeleteEntities:
    """The entities to delete."""

    names: EntityNames
    """The names, at most 1,000. Unknown names are ignored."""


@operation("knowledge_graph.delete_entities", access="delete", mutates=True, store="recipes")
def delete_entities(tx: Transaction, target: DeleteEntities, context: Context) -> None:
    """Delete entities, and the relations that name them."""
    names = dict.fromkeys(target.names)
    delete_edges(tx, tx.table(RecipeTables).graph.edges_touching(ENTITY_GRAPH, names))
    for name in names:
        if (stored := find_entity(tx, name)) is not None:
            tx.records.delete(stored)


@dataclass(frozen=True, slots=True)
class DeleteObservations:
    """The observations to delete."""

    items: Annotated[tuple[EntityObservations, ...], Field(max_length=MOST_PER_CALL)]
    """Entities with their observations, at most 1,000. Unknown ones are ignored."""


@operation("knowledge_graph.delete_observations", access="delete", mutates=True, store="recipes")
def delete_observations(tx: Transaction, target: DeleteObservations, context: Context) -> None:
    """Delete observations of entities. Their earlier versions stay in the history."""
    for item in target.items:
        stored = find_entity(tx, item.entity)
        if stored is not None:
            unwanted = {*item.observations}
            remaining = [text for text in view_entity(stored).observations if text not in unwanted]
            set_observations(tx, stored, remaining)


@dataclass(frozen=True, slots=True)
class DeleteRelations:
    """The relations to delete."""

    relations: Annotated[tuple[Relation, ...], Field(max_length=MOST_PER_CALL)]
    """The relations, at most 1,000. Unknown ones are ignored."""


@operation("knowledge_graph.delete_relations", access="delete", mutates=True, store="recipes")
def delete_relations(tx: Transaction, target: DeleteRelations, context: Context) -> None:
    """Delete relations. Their entities stay."""
    edge_values_ = dict.fromkeys(map(edge_values, target.relations))
    delete_edges(tx, tx.table(RecipeTables).graph.equal_edges(ENTITY_GRAPH, edge_values_))


@dataclass(frozen=True, slots=True)
class OpenEntities:
    """The entities to read."""

    names: EntityNames
    """The names, at most 1,000. Unknown names are ignored."""


@operation("knowledge_graph.open", access="read", mutates=False, store="recipes")
def open_entities(tx: Transaction, query: OpenEntities, context: Context) -> EntityGraph:
    """Return the named entities, and the relations that begin or end at one of them.

    Raises ResultTooLarge: when the entities do not fit into one answer.
    """
    places = tx.table(RecipeTables).graph.places(ENTITY_GRAPH, query.names)
    return with_relations(tx, map(view_entity, places), context)


@dataclass(frozen=True, slots=True)
class ReadGraph:
    """Nothing is given: the whole graph is read."""


@operation("knowledge_graph.read", access="read", mutates=False, store="recipes")
def read_graph(tx: Transaction, query: ReadGraph, context: Context) -> EntityGraph:
    """Return all entities and relations, in the order in which they were created.

    Raises ResultTooLarge: when the graph does not fit into one answer.
    Raises SearchTooLong: when the read exceeds its time limit.
    """
    with limited(tx, "the graph"):
        entities = _fitting(all_entities(tx), context)
        edges = tx.table(RecipeTables).graph.all_edges(ENTITY_GRAPH)
        return EntityGraph(entities, _fitting(map(view_relation, edges), context))


@dataclass(frozen=True, slots=True)
class SearchEntities:
    """The text to find."""

    query: Annotated[str, Field(max_length=4096)]
    """A part of a name, a type or an observation, in any case. An empty query finds everything."""


@operation("knowledge_graph.search", access="search", mutates=False, store="recipes")
def search_entities(tx: Transaction, target: SearchEntities, context: Context) -> EntityGraph:
    """Find the entities with a text, and the relations that begin or end at one of them.

    Raises ResultTooLarge: when the entities do not fit into one answer.
    Raises SearchTooLong: when the search exceeds its time limit.
    """
    query = target.query.lower()
    with limited(tx, "the search"):
        matching = (entity for entity in all_entities(tx) if _has_text(entity, query))
        return with_relations(tx, matching, context)


def _has_text(entity: Entity, query: str) -> bool:
    texts = (entity.name, entity.entity_type, *entity.observations)
    return any(query in text.lower() for text in texts)


def ensure_graph(tx: Transaction, context: Context) -> None:
    if tx.table(RecipeTables).instances.find("graph", ENTITY_GRAPH) is None:
        create_instance(tx, NewInstance("graph", ENTITY_GRAPH), context)


def find_entity(tx: Transaction, name: str) -> StoredRecord | None:
    """Return the record of an entity, None for none."""
    return tx.table(RecipeTables).nodes.find(make_node_scope(ENTITY_GRAPH), name)


def view_entity(stored: StoredRecord) -> Entity:
    """Return the view of an entity. Raises RecordDamaged."""
    state = stored.state
    data = load_json(state.data or "{}", state.guid)
    observations = tuple(read_observations(data, state.content))
    return Entity(state.key or "", data["kind"], observations)


def set_observations(tx: Transaction, stored: StoredRecord, observations: Sequence[str]) -> None:
    """Replace the observations of an entity, if they differ. Raises ValueTooLarge."""
    before = view_entity(stored)
    if before.observations != tuple(observations):
        after = make_node(Entity(before.name, before.entity_type, tuple(observations)))
        tx.table(RecipeTables).nodes.change(stored, with_values(stored.state, after))


def make_node(entity: Entity) -> NewNode:
    """Return the node of an entity. Raises ValueTooLarge."""
    if len(entity.observations) > MAX_OBSERVATIONS:
        _refuse_size(entity, f"{MAX_OBSERVATIONS:,} observations")
    if sum(map(len, entity.observations)) > MAX_ENTITY_CHARACTERS:
        _refuse_size(entity, f"{MAX_ENTITY_CHARACTERS:,} characters in its observations")
    attributes = {OBSERVATIONS: list(entity.observations)} if entity.observations else {}
    return NewNode(entity.name, entity.entity_type, entity.name, attributes)


def _refuse_size(entity: Entity, limit: str) -> NoReturn:
    raise ValueTooLarge(
        f"the entity {entity.name[:128]!r} would have more than {limit}, the limit; delete some, "
        "or use several entities"
    )


def view_relation(edge: Edge) -> Relation:
    return Relation(edge.from_node, edge.to_node, edge.kind)


def edge_values(relation: Relation) -> EdgeValues:
    return relation.relation_type, relation.from_entity, relation.to_entity


def delete_edges(tx: Transaction, edges: Iterable[Edge]) -> None:
    for edge in [*edges]:
        tx.table(RecipeTables).graph.delete_edge(ENTITY_GRAPH, edge.id)
        ends = {"from_node_id": edge.from_node, "to_node_id": edge.to_node}
        tx.records.announce(
            "edge.deleted", ENTITY_GRAPH, {"id": edge.id, "kind": edge.kind, **ends}
        )


def all_entities(tx: Transaction) -> Iterator[Entity]:
    """Yield all entities in the order in which they were created."""
    return map(view_entity, tx.table(RecipeTables).graph.first_nodes(ENTITY_GRAPH, ANY_NUMBER))


def with_relations(tx: Transaction, entities: Iterable[Entity], context: Context) -> EntityGraph:
    """Return entities with the relations that begin or end at one. Raises ResultTooLarge."""
    shown = _fitting(entities, context)
    names = [entity.name for entity in shown]
    edges = tx.table(RecipeTables).graph.edges_touching(ENTITY_GRAPH, names)
    return EntityGraph(shown, _fitting(map(view_relation, edges), context))


def _fitting(items: Iterable[Item], context: Context) -> tuple[Item, ...]:
    """Return all items, which take at most half of an answer. Raises ResultTooLarge."""
    fitting, has_more = take_page(items, ANY_NUMBER, context.result_bytes // 2)
    if has_more:
        raise ResultTooLarge(
            f"the entities or relations have more than {context.result_bytes // 2:,} bytes as "
            "JSON; search with a more specific query, or open entities by their names"
        )
    return tuple(fitting)


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

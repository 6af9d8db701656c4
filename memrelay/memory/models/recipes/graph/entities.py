"""Entities and relations of the graph `mcp`, as the official MCP memory server has them.

An entity is a node: its id is the name, and its kind is the type. A relation is an edge. It may
name entities that do not exist.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, NoReturn, TypeVar

from pydantic import ConfigDict, Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.versions import StoredRecord
from memrelay.memory.errors import RecordNotFound, ResultTooLarge, ValueTooLarge
from memrelay.memory.models.recipes.graph.nodes import NewNode, insert_node, with_values
from memrelay.memory.models.recipes.graph.observations import (
    ENTITY_GRAPH,
    OBSERVATIONS,
    read_observations,
)
from memrelay.memory.models.recipes.graph.table import Edge, EdgeValues, scope_of
from memrelay.memory.models.recipes.instances import NewInstance, create_instance
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.operations import Context
from memrelay.memory.records.data import load_json
from memrelay.memory.records.reading import take_page

Item = TypeVar("Item", "Entity", "Relation")

MOST_PER_CALL = 1000
MAX_OBSERVATIONS = 10_000
MAX_ENTITY_CHARACTERS = 1 << 20
ANY_NUMBER = 1 << 62
EntityName = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^\x00]*$")]
TypeName = Annotated[str, Field(max_length=1024, pattern=r"^[^\x00]*$")]
Observations = Annotated[tuple[str, ...], Field(max_length=MAX_OBSERVATIONS)]
EntityNames = Annotated[tuple[str, ...], Field(max_length=MOST_PER_CALL)]


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", use_attribute_docstrings=True
    )

    name: EntityName
    """The name, unique within the graph."""
    entity_type: TypeName
    """The type, for example person."""
    observations: Observations
    """What is known about the entity: texts in the order in which they were added."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation between two entities."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", use_attribute_docstrings=True
    )

    from_entity: EntityName
    """The name of the entity at which the relation begins."""
    to_entity: EntityName
    """The name of the entity at which the relation ends."""
    relation_type: TypeName
    """The type, in active voice, for example knows."""


@dataclass(frozen=True, slots=True)
class EntityObservations:
    """Observations of one entity."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", use_attribute_docstrings=True
    )

    entity: str
    """The name of the entity."""
    observations: Observations
    """The texts."""


@dataclass(frozen=True, slots=True)
class EntityGraph:
    """Entities and relations in the order in which they were created."""

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]


def ensure_graph(tx: Transaction, context: Context) -> None:
    """Create the graph if it does not exist."""
    if tx.table(RecipeTables).instances.find("graph", ENTITY_GRAPH) is None:
        create_instance(tx, NewInstance("graph", ENTITY_GRAPH), context)


def find_entity(tx: Transaction, name: str) -> StoredRecord | None:
    """Return the record of an entity, None for none."""
    return tx.table(RecipeTables).nodes.find(scope_of(ENTITY_GRAPH), name)


def get_entity(tx: Transaction, name: str) -> StoredRecord:
    """Return the record of an entity. Raises RecordNotFound."""
    place = find_entity(tx, name)
    if place is None:
        # The text is that of the official server.
        raise RecordNotFound(f"Entity with name {name} not found")
    return place


def view_entity(place: StoredRecord) -> Entity:
    """Return the view of an entity. Raises RecordDamaged."""
    state = place.state
    data = load_json(state.data or "{}", state.guid)
    observations = tuple(read_observations(data, state.content))
    return Entity(state.key or "", data["kind"], observations)


def insert_entity(tx: Transaction, entity: Entity, context: Context) -> None:
    """Insert an entity whose name is free. Raises ValueTooLarge."""
    insert_node(tx, ENTITY_GRAPH, node_of(entity), context)


def set_observations(tx: Transaction, place: StoredRecord, observations: Sequence[str]) -> None:
    """Replace the observations of an entity, if they differ. Raises ValueTooLarge."""
    before = view_entity(place)
    if before.observations != tuple(observations):
        after = node_of(Entity(before.name, before.entity_type, tuple(observations)))
        tx.table(RecipeTables).nodes.change(place, with_values(place.state, after))


def node_of(entity: Entity) -> NewNode:
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


def relation_of(edge: Edge) -> Relation:
    """Return the view of a relation."""
    return Relation(edge.from_node, edge.to_node, edge.kind)


def edge_values(relation: Relation) -> EdgeValues:
    """Return the values of a relation's edge."""
    return relation.relation_type, relation.from_entity, relation.to_entity


def delete_relations_of(tx: Transaction, names: Iterable[str]) -> None:
    """Delete the relations that begin or end at one of these names."""
    delete_edges(tx, tx.table(RecipeTables).graph.edges_touching(ENTITY_GRAPH, names))


def delete_edges(tx: Transaction, edges: Iterable[Edge]) -> None:
    """Delete edges of the graph."""
    for edge in [*edges]:
        tx.table(RecipeTables).graph.delete_edge(ENTITY_GRAPH, edge.id)
        ends = {"from_node_id": edge.from_node, "to_node_id": edge.to_node}
        tx.feed.add("edge.deleted", ENTITY_GRAPH, {"id": edge.id, "kind": edge.kind, **ends})


def all_entities(tx: Transaction) -> Iterator[Entity]:
    """Yield all entities in the order in which they were created."""
    return map(view_entity, tx.table(RecipeTables).graph.first_nodes(ENTITY_GRAPH, ANY_NUMBER))


def with_relations(tx: Transaction, entities: Iterable[Entity], context: Context) -> EntityGraph:
    """Return entities with the relations that begin or end at one. Raises ResultTooLarge."""
    found = _fitting(entities, context)
    names = [entity.name for entity in found]
    edges = tx.table(RecipeTables).graph.edges_touching(ENTITY_GRAPH, names)
    return EntityGraph(found, _fitting(map(relation_of, edges), context))


def whole_graph(tx: Transaction, context: Context) -> EntityGraph:
    """Return all entities and relations. Raises ResultTooLarge."""
    found = _fitting(all_entities(tx), context)
    edges = tx.table(RecipeTables).graph.all_edges(ENTITY_GRAPH)
    return EntityGraph(found, _fitting(map(relation_of, edges), context))


def _fitting(items: Iterable[Item], context: Context) -> tuple[Item, ...]:
    """Return all items, which take at most half of an answer. Raises ResultTooLarge."""
    found, has_more = take_page(items, ANY_NUMBER, context.result_bytes // 2)
    if has_more:
        raise ResultTooLarge(
            f"the entities or relations have more than {context.result_bytes // 2:,} bytes as "
            "JSON; search with a more specific query, or open entities by their names"
        )
    return tuple(found)

"""knowledge_graph.add_observations: adds observations to entities."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.models.recipes.graph.entities import (
    MOST_PER_CALL,
    Entity,
    EntityGraph,
    EntityNames,
    EntityObservations,
    Relation,
    all_entities,
    delete_edges,
    delete_relations_of,
    edge_values,
    ensure_graph,
    find_entity,
    get_entity,
    insert_entity,
    relation_of,
    set_observations,
    view_entity,
    whole_graph,
    with_relations,
)
from memrelay.memory.models.recipes.graph.observations import ENTITY_GRAPH
from memrelay.memory.models.recipes.graph.table import Edge
from memrelay.memory.models.recipes.graph.views import limited
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.operations import Context, operation


@dataclass(frozen=True, slots=True)
class AddObservations:
    """The observations to add."""

    items: Annotated[tuple[EntityObservations, ...], Field(max_length=MOST_PER_CALL)]
    """Entities with their new observations, at most 1,000. Existing observations are ignored."""


@dataclass(frozen=True, slots=True)
class AddedObservations:
    """The added observations, for each of the given entities."""

    items: tuple[EntityObservations, ...]


@operation("knowledge_graph.add_observations", access="write", mutates=True, home="recipes")
def add_observations(
    tx: Transaction, given: AddObservations, context: Context
) -> AddedObservations:
    """Add observations to entities: all, or none if an entity does not exist.

    Raises RecordNotFound: when an entity does not exist.
    Raises ValueTooLarge: when an entity would have too many or too long observations.
    """
    added = list[EntityObservations]()
    for item in given.items:
        place = get_entity(tx, item.entity)
        before = view_entity(place).observations
        known = {*before}
        new = tuple(text for text in item.observations if text not in known)
        set_observations(tx, place, (*before, *new))
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


@operation("knowledge_graph.create_entities", access="write", mutates=True, home="recipes")
def create_entities(tx: Transaction, given: CreateEntities, context: Context) -> CreatedEntities:
    """Create the entities whose names are new.

    Raises ValueTooLarge: when an entity has too many or too long observations.
    """
    ensure_graph(tx, context)
    created = list[Entity]()
    for entity in given.entities:
        if find_entity(tx, entity.name) is None:
            insert_entity(tx, entity, context)
            created.append(entity)
    if created:
        ids = [entity.name for entity in created]
        tx.feed.add("node.added" if len(ids) == 1 else "nodes.added", ENTITY_GRAPH, {"ids": ids})
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


@operation("knowledge_graph.create_relations", access="write", mutates=True, home="recipes")
def create_relations(tx: Transaction, given: CreateRelations, context: Context) -> CreatedRelations:
    """Create the relations that do not exist yet."""
    ensure_graph(tx, context)
    table = tx.table(RecipeTables).graph
    existing = table.equal_edges(ENTITY_GRAPH, map(edge_values, given.relations))
    known = {*map(relation_of, existing)}
    created = [one for one in dict.fromkeys(given.relations) if one not in known]
    edges = [
        Edge(context.new_guid(), *edge_values(relation), context.now_ms) for relation in created
    ]
    table.insert_edges(ENTITY_GRAPH, edges)
    if edges:
        ids = [edge.id for edge in edges]
        tx.feed.add("edge.added" if len(ids) == 1 else "edges.added", ENTITY_GRAPH, {"ids": ids})
    return CreatedRelations(tuple(created))


@dataclass(frozen=True, slots=True)
class DeleteEntities:
    """The entities to delete."""

    names: EntityNames
    """The names, at most 1,000. Unknown names are ignored."""


@operation("knowledge_graph.delete_entities", access="delete", mutates=True, home="recipes")
def delete_entities(tx: Transaction, target: DeleteEntities, context: Context) -> None:
    """Delete entities, and the relations that name them."""
    names = dict.fromkeys(target.names)
    delete_relations_of(tx, names)
    for name in names:
        if (place := find_entity(tx, name)) is not None:
            tx.records.delete(place)


@dataclass(frozen=True, slots=True)
class DeleteObservations:
    """The observations to delete."""

    items: Annotated[tuple[EntityObservations, ...], Field(max_length=MOST_PER_CALL)]
    """Entities with their observations, at most 1,000. Unknown ones are ignored."""


@operation("knowledge_graph.delete_observations", access="delete", mutates=True, home="recipes")
def delete_observations(tx: Transaction, target: DeleteObservations, context: Context) -> None:
    """Delete observations of entities. Their earlier versions stay in the history."""
    for item in target.items:
        place = find_entity(tx, item.entity)
        if place is not None:
            unwanted = {*item.observations}
            kept = [text for text in view_entity(place).observations if text not in unwanted]
            set_observations(tx, place, kept)


@dataclass(frozen=True, slots=True)
class DeleteRelations:
    """The relations to delete."""

    relations: Annotated[tuple[Relation, ...], Field(max_length=MOST_PER_CALL)]
    """The relations, at most 1,000. Unknown ones are ignored."""


@operation("knowledge_graph.delete_relations", access="delete", mutates=True, home="recipes")
def delete_relations(tx: Transaction, target: DeleteRelations, context: Context) -> None:
    """Delete relations. Their entities stay."""
    wanted = dict.fromkeys(map(edge_values, target.relations))
    delete_edges(tx, tx.table(RecipeTables).graph.equal_edges(ENTITY_GRAPH, wanted))


@dataclass(frozen=True, slots=True)
class OpenEntities:
    """The entities to read."""

    names: EntityNames
    """The names, at most 1,000. Unknown names are ignored."""


@operation("knowledge_graph.open", access="read", mutates=False, home="recipes")
def open_entities(tx: Transaction, wanted: OpenEntities, context: Context) -> EntityGraph:
    """Return the named entities, and the relations that begin or end at one of them.

    Raises ResultTooLarge: when the entities do not fit into one answer.
    """
    places = tx.table(RecipeTables).graph.places(ENTITY_GRAPH, wanted.names)
    return with_relations(tx, map(view_entity, places), context)


@dataclass(frozen=True, slots=True)
class ReadGraph:
    """Nothing is given: the whole graph is read."""


@operation("knowledge_graph.read", access="read", mutates=False, home="recipes")
def read_graph(tx: Transaction, wanted: ReadGraph, context: Context) -> EntityGraph:
    """Return all entities and relations, in the order in which they were created.

    Raises ResultTooLarge: when the graph does not fit into one answer.
    Raises SearchTooLong: when the read exceeds its time limit.
    """
    with limited(tx, "the graph"):
        return whole_graph(tx, context)


@dataclass(frozen=True, slots=True)
class SearchEntities:
    """The text to find."""

    query: Annotated[str, Field(max_length=4096)]
    """A part of a name, a type or an observation, in any case. An empty query finds everything."""


@operation("knowledge_graph.search", access="search", mutates=False, home="recipes")
def search_entities(tx: Transaction, wanted: SearchEntities, context: Context) -> EntityGraph:
    """Find the entities with a text, and the relations that begin or end at one of them.

    Raises ResultTooLarge: when the entities do not fit into one answer.
    Raises SearchTooLong: when the search exceeds its time limit.
    """
    query = wanted.query.lower()
    with limited(tx, "the search"):
        found = (entity for entity in all_entities(tx) if _has_text(entity, query))
        return with_relations(tx, found, context)


def _has_text(entity: Entity, query: str) -> bool:
    texts = (entity.name, entity.entity_type, *entity.observations)
    return any(query in text.lower() for text in texts)

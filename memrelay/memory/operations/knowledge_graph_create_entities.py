"""knowledge_graph.create_entities: creates entities of the knowledge graph."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.entities import (
    MOST_PER_CALL,
    Entity,
    ensure_graph,
    find_entity,
    insert_entity,
)
from memrelay.memory.recipes.graph.observations import ENTITY_GRAPH
from memrelay.memory.sqlite.store import Transaction


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

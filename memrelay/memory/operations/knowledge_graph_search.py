"""knowledge_graph.search: finds entities by a part of their texts."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.entities import (
    Entity,
    EntityGraph,
    all_entities,
    with_relations,
)
from memrelay.memory.recipes.graph.views import limited
from memrelay.memory.sqlite.store import Transaction


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

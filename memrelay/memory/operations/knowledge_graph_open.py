"""knowledge_graph.open: reads entities by their names."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.entities import (
    EntityGraph,
    EntityNames,
    view_entity,
    with_relations,
)
from memrelay.memory.recipes.graph.observations import ENTITY_GRAPH
from memrelay.memory.sqlite.store import Transaction


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
    places = tx.recipes.graph.places(ENTITY_GRAPH, wanted.names)
    return with_relations(tx, map(view_entity, places), context)

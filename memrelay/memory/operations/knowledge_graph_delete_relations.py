"""knowledge_graph.delete_relations: deletes relations between entities."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.entities import (
    MOST_PER_CALL,
    Relation,
    delete_edges,
    edge_values,
)
from memrelay.memory.recipes.graph.observations import ENTITY_GRAPH
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeleteRelations:
    """The relations to delete."""

    relations: Annotated[tuple[Relation, ...], Field(max_length=MOST_PER_CALL)]
    """The relations, at most 1,000. Unknown ones are ignored."""


@operation("knowledge_graph.delete_relations", access="delete", mutates=True, home="recipes")
def delete_relations(tx: Transaction, target: DeleteRelations, context: Context) -> None:
    """Delete relations. Their entities stay."""
    wanted = dict.fromkeys(map(edge_values, target.relations))
    delete_edges(tx, tx.recipes.graph.equal_edges(ENTITY_GRAPH, wanted))

"""knowledge_graph.delete_observations: deletes observations of entities."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.entities import (
    MOST_PER_CALL,
    EntityObservations,
    find_entity,
    set_observations,
    view_entity,
)
from memrelay.memory.sqlite.store import Transaction


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

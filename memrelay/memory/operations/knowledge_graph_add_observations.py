"""knowledge_graph.add_observations: adds observations to entities."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.entities import (
    MOST_PER_CALL,
    EntityObservations,
    get_entity,
    set_observations,
    view_entity,
)
from memrelay.memory.sqlite.store import Transaction


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

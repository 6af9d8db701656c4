"""instances.list: lists the instances of a sort."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.sources.instances import (
    InstanceView,
    Sort,
    all_instances,
    view_instance,
)
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ListInstances:
    """The instances to list."""

    sort: Sort
    """The sort: kv, events or graph."""


@dataclass(frozen=True, slots=True)
class Instances:
    """All instances of a sort."""

    items: tuple[InstanceView, ...]


@operation("instances.list", access="read", mutates=False, home="recipes")
def list_instances(tx: Transaction, wanted: ListInstances, context: Context) -> Instances:
    """List the instances of a sort with their counts, the newest first.

    Raises SearchTooLong: when the counts exceed the time limit.
    """
    states = [place.whole for place in all_instances(tx, wanted.sort)]
    states.sort(key=lambda state: (state.created_at, state.guid), reverse=True)
    with tx.bounded_search():
        return Instances(tuple(view_instance(tx, state) for state in states))

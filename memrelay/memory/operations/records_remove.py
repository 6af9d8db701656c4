"""records.remove: deletes items of a LangGraph store by scope and key."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_find import Keys
from memrelay.memory.records.view import GivenName
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class RemoveRecords:
    """The items to delete."""

    scope: GivenName
    """Their scope: the labels of the namespace, joined by dots."""
    keys: Keys
    """Their keys."""


@dataclass(frozen=True, slots=True)
class Removed:
    """What was deleted."""

    removed: int
    """The number of items that existed."""


@operation("records.remove", access="delete", mutates=True, home="langgraph", any_store=True)
def remove(tx: Transaction, wanted: RemoveRecords, context: Context) -> Removed:
    """Delete items of a LangGraph store (records of kind memory.item) by their keys.

    Keys without an item are ignored. records.restore can undo it.
    """
    places = list(tx.langgraph_items.at_keys(wanted.scope, dict.fromkeys(wanted.keys)))
    for place in places:
        tx.records.delete(place)
    return Removed(len(places))

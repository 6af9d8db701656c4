"""records.find: looks up items of a LangGraph store by scope and key."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_get import check_fits
from memrelay.memory.operations.records_read import AnswerSize
from memrelay.memory.records.view import GivenName, RecordView, view
from memrelay.memory.sqlite.store import Transaction

# Items of one call.
MAX_ITEMS = 1000
Keys = Annotated[tuple[GivenName, ...], Field(min_length=1, max_length=MAX_ITEMS)]


@dataclass(frozen=True, slots=True)
class FindRecords:
    """The items to look up."""

    scope: GivenName
    """Their scope: the labels of the namespace, joined by dots."""
    keys: Keys
    """Their keys."""


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """The items that exist."""

    items: tuple[RecordView, ...]
    """The items, in the order of the keys."""
    remaining: tuple[str, ...]
    """Keys that were not looked up because the answer is full; look them up in another call."""


@operation("records.find", access="read", mutates=False, home="langgraph", any_store=True)
def find(tx: Transaction, wanted: FindRecords, context: Context) -> FoundRecords:
    """Look up items of a LangGraph store (records of kind memory.item) by their keys.

    Raises ResultTooLarge: when an item does not fit into an answer.
    """
    keys = tuple(dict.fromkeys(wanted.keys))
    items: list[RecordView] = []
    room = AnswerSize(context.result_bytes)
    for place in tx.langgraph_items.at_keys(wanted.scope, keys):
        record, further = place.whole.record, place.whole.further
        if room.would_exceed(record, further) and items:
            return FoundRecords(tuple(items), keys[keys.index(place.whole.key or "") :])
        items.append(view(check_fits(record, further, context), further))
    return FoundRecords(tuple(items), ())

"""records.touch: restarts the time to live of items of a LangGraph store."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_find import MAX_ITEMS
from memrelay.memory.records.view import Guid
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class TouchRecords:
    """The items that were accessed."""

    guids: Annotated[tuple[Guid, ...], Field(min_length=1, max_length=MAX_ITEMS)]
    """The guids of their records."""


@dataclass(frozen=True, slots=True)
class Touched:
    """What was changed."""

    touched: int
    """The number of items that have a time to live and have not expired."""


@operation("records.touch", access="write", mutates=True, home="langgraph", any_store=True)
def touch(tx: Transaction, wanted: TouchRecords, context: Context) -> Touched:
    """Restart the time to live of items of a LangGraph store (records of kind memory.item).

    Each expires `data.ttl_m` minutes from now, and never earlier than before. Its version and its
    history stay the same. Other records are ignored.
    """
    return Touched(tx.langgraph_items.touch(dict.fromkeys(wanted.guids)))

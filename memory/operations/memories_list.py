"""memories.list: pages of named memories in the order in which they were made."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_list import Limit, place_of_cursor
from memrelay.memory.operations.records_read import fitting_page
from memrelay.memory.records.memory_view import Globs, MemoryView, memory_view
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ListMemories:
    """Which memories, and which page of them."""

    tags: Globs = ()
    """Only memories with a tag that one of these fits; `*` is any text, `?` one character."""
    order: Literal["asc", "desc"] = "asc"
    """Oldest first, or newest first."""
    limit: Limit = 50
    """How many at most; a page of long descriptions and tags may have fewer."""
    cursor: Annotated[str, Field(max_length=19)] = ""
    """The `next_cursor` of the page before."""


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """A page of named memories."""

    items: tuple[MemoryView, ...]
    next_cursor: str | None
    """For the next page; null on the last one."""
    total: int
    """How many there are on all pages."""


@operation("memories.list", access="read", mutates=False, at_home=True)
def list_memories(tx: Transaction, wanted: ListMemories, context: Context) -> MemoryPage:
    """Lists named memories, all or by tags, a page at a time.

    Raises Refused for a cursor that is none.
    """
    found = list(
        tx.memories.page(
            wanted.tags, wanted.order, place_of_cursor(wanted.cursor), wanted.limit + 1
        )
    )
    told = (memory_view(memory, tx.memory_id) for _, memory in found)
    items, more = fitting_page(told, wanted.limit, context.result_bytes)
    return MemoryPage(
        tuple(items),
        str(found[len(items) - 1][0]) if more else None,
        tx.memories.count(wanted.tags),
    )

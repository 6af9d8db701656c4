"""memories.list: lists named memories in pages, in order of creation."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_list import Limit, parse_cursor
from memrelay.memory.operations.records_read import take_page
from memrelay.memory.records.memory_view import Globs, MemoryView, memory_view
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ListMemories:
    """The memories to list, and the page."""

    tags: Globs = ()
    """Only memories with a tag that matches one of these; `*` is any text, `?` one character."""
    order: Literal["asc", "desc"] = "asc"
    """Oldest first, or newest first."""
    limit: Limit = 50
    """The maximum number of memories. A page of long descriptions and tags may have fewer."""
    cursor: Annotated[str, Field(max_length=19)] = ""
    """The `next_cursor` of the previous page."""


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """A page of named memories."""

    items: tuple[MemoryView, ...]
    next_cursor: str | None
    """The cursor of the next page; null on the last page."""
    total: int
    """The number of memories on all pages."""


@operation("memories.list", access="read", mutates=False, home="memories")
def list_memories(tx: Transaction, wanted: ListMemories, context: Context) -> MemoryPage:
    """List named memories, optionally by tags, in pages.

    Raises Refused: when the cursor is invalid.
    """
    found = list(
        tx.memories.page(wanted.tags, wanted.order, parse_cursor(wanted.cursor), wanted.limit + 1)
    )
    views = (memory_view(memory, tx.memory_id) for _, memory in found)
    items, more = take_page(views, wanted.limit, context.result_bytes)
    return MemoryPage(
        tuple(items),
        str(found[len(items) - 1][0]) if more else None,
        tx.memories.count(wanted.tags),
    )

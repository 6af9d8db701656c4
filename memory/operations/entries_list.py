"""entries.list: pages of a named memory's entries in the order in which they came."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from memrelay.memory.filter.input import Filter
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.entries_get import entry_view
from memrelay.memory.operations.memories_get import fetch_memory
from memrelay.memory.operations.records_list import Limit, page_within, place_of_cursor
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.memory_view import KIND, EntryView, Globs, Ident, Source
from memrelay.memory.sqlite.filters import Conditions, compiled
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ListEntries:
    """Which entries, and which page of them."""

    memory_id: Ident
    """The memory whose entries they are."""
    tags: Globs = ()
    """Only entries with a tag that one of these fits; `*` is any text, `?` one character."""
    source: Source | None = None
    """Only entries of this source."""
    filter: Filter | None = None
    """Only entries whose records pass this filter, as docs/filters.md has it; `data` is an entry's
    metadata."""
    order: Literal["asc", "desc"] = "asc"
    """Oldest first, or newest first."""
    limit: Limit = 50
    """How many at most; a page of long entries may have fewer."""
    cursor: Annotated[str, Field(max_length=19)] = ""
    """The `next_cursor` of the page before."""
    offset: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """How many to pass over; a cursor keeps its place while others write, and this does not."""

    @property
    def conditions(self) -> Conditions:
        """Those that are set."""
        source = {"source": self.source} if self.source is not None else {}
        return Conditions(
            {"scope": self.memory_id, "kind": KIND} | source,
            globs=self.tags,
            given=compiled(self.filter),
        )


@dataclass(frozen=True, slots=True)
class EntryPage:
    """A page of entries."""

    items: tuple[EntryView, ...]
    next_cursor: str | None
    """For the next page; null on the last one."""
    total: int
    """How many there are on all pages."""


@operation("entries.list", access="read", mutates=False, at_home=True)
def list_entries(tx: Transaction, wanted: ListEntries, context: Context) -> EntryPage:
    """Lists the entries of a named memory, all or by tags, source and filter, a page at a time.

    Raises NotThere for a memory that is none, and Refused for a cursor that is none.
    """
    fetch_memory(tx, wanted.memory_id)
    conditions = wanted.conditions
    found = tx.records.page(
        conditions,
        wanted.order,
        place_of_cursor(wanted.cursor),
        wanted.limit + 1,
        offset=wanted.offset,
    )
    records, cursor = page_within(found, wanted.limit, context)
    return EntryPage(
        tuple(entry_view(tx, record) for record, _ in records), cursor, tx.records.count(conditions)
    )

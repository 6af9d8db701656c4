"""entries.list: lists the entries of a named memory in pages, in order of creation."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from memrelay.memory.filter.input import Filter
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.entries_get import entry_view
from memrelay.memory.operations.memories_get import fetch_memory
from memrelay.memory.operations.records_list import Limit, parse_cursor, take_records
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.memory_view import KIND, EntryView, Globs, Ident, Source
from memrelay.memory.sqlite.filters import Conditions, compiled
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ListEntries:
    """The entries to list, and the page."""

    memory_id: Ident
    """The memory to list."""
    tags: Globs = ()
    """Only entries with a tag that matches one of these; `*` is any text, `?` one character."""
    source: Source | None = None
    """Only entries from this origin."""
    filter: Filter | None = None
    """Only entries that pass this filter (docs/filters.md); `data` is the metadata of an entry."""
    order: Literal["asc", "desc"] = "asc"
    """Oldest first, or newest first."""
    limit: Limit = 50
    """The maximum number of entries. A page of long entries may have fewer."""
    cursor: Annotated[str, Field(max_length=19)] = ""
    """The `next_cursor` of the previous page."""
    offset: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """The number of entries to skip. Unlike a cursor, it shifts when others write."""

    @property
    def conditions(self) -> Conditions:
        """The conditions that are set."""
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
    """The cursor of the next page; null on the last page."""
    total: int
    """The number of entries on all pages."""


@operation("entries.list", access="read", mutates=False, home="memories")
def list_entries(tx: Transaction, wanted: ListEntries, context: Context) -> EntryPage:
    """List the entries of a named memory, optionally by tags, source and filter, in pages.

    Raises RecordNotFound: when the memory does not exist.
    Raises Refused: when the cursor is invalid.
    """
    fetch_memory(tx, wanted.memory_id)
    conditions = wanted.conditions
    found = tx.records.page(
        conditions,
        wanted.order,
        parse_cursor(wanted.cursor),
        wanted.limit + 1,
        offset=wanted.offset,
    )
    records, cursor = take_records(found, wanted.limit, context)
    return EntryPage(
        tuple(entry_view(tx, record) for record, _ in records), cursor, tx.records.count(conditions)
    )

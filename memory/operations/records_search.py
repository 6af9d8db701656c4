"""records.search: finds records by their words, best first; filters come before any limit."""
from dataclasses import dataclass, field

from memory.operation import operation
from memory.operations.records_read import within
from memory.query import fts_query
from memory.record import Record
from memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class SearchInput:
    """What to find. All words must be there; every tag of `tags` too. A result of more than `max_bytes` is refused."""

    query: str
    max_bytes: int
    filters: dict[str, str] = field(default_factory=dict)   # of kind, scope
    tags: tuple[str, ...] = ()
    limit: int | None = None
    scored: bool = True   # whether the scores are wanted; they cost as much again


@operation("records.search", access="search", mutates=False)
def search(tx: Transaction, wanted: SearchInput) -> list[Record]:
    """The matching records by FTS5 relevance, each with its score where it is wanted. Raises ResultTooLarge."""
    query = fts_query(wanted.query)
    if not query:
        return []
    return within(wanted.max_bytes, tx.records.search(query, wanted.filters, wanted.tags, wanted.limit, scored=wanted.scored))

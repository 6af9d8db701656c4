"""records.search: finds records by their words, best first; filters come before any limit (docs/search.md)."""
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from memory.errors import ResultTooLarge
from memory.operation import Context, operation
from memory.operations.records_read import within
from memory.query import Query, match_all, match_any, parse
from memory.record import Record
from memory.record_view import Name, RecordView, Tags, view
from memory.sqlite.filters import Conditions
from memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class SearchInput:
    """What to find. All words must be there; every tag of `tags` too. A result of more than `max_bytes` is refused.

    Filters in the query and these hold together.
    """

    query: str
    max_bytes: int
    filters: dict[str, str] = field(default_factory=dict)   # of kind, scope
    tags: tuple[str, ...] = ()
    limit: int | None = None
    scored: bool = True   # whether the scores are wanted; they cost as much again


def search(tx: Transaction, wanted: SearchInput) -> list[Record]:
    """The matching records by FTS5 relevance, each with its score where it is wanted. Raises ResultTooLarge.

    A query of filters alone finds all that they let pass, newest first; one without anything, nothing.
    """
    query = parse(wanted.query)
    match, unwanted, conditions = match_all(query), match_any(query), conditions_of(query, wanted)
    if match:
        return within(wanted.max_bytes, tx.records.search(match, unwanted, conditions, wanted.limit, scored=wanted.scored))
    return within(wanted.max_bytes, tx.records.latest(unwanted, conditions, wanted.limit)) if query.filters else []


def conditions_of(query: Query, wanted: SearchInput) -> Conditions:
    """The filters of a query and those given beside it."""
    return Conditions(wanted.filters, query.kinds, query.scopes, (*wanted.tags, *query.tags), query.after_ms, query.before_ms)


@dataclass(frozen=True, slots=True)
class SearchRecords:
    """What is looked for."""

    query: Annotated[str, Field(min_length=1)]
    """What to find, as docs/search.md has it; all words must be there."""
    kind: Name = ""
    """Only records of this kind."""
    scope: Name = ""
    """Only records of this scope."""
    tags: Tags = ()
    """Only records with all of these tags."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 20
    """How many at most; counts after all filters."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A record that was found."""

    record: RecordView
    score: float
    """The higher, the better it fits."""


@dataclass(frozen=True, slots=True)
class Hits:
    """What was found, best first."""

    items: tuple[Hit, ...]


@operation("records.search", access="search", mutates=False)
def search_records(tx: Transaction, wanted: SearchRecords, context: Context) -> Hits:
    """Finds records by their words, best first.

    Raises Refused for too many words, and ResultTooLarge.
    """
    filters = {name: value for name, value in (("kind", wanted.kind), ("scope", wanted.scope)) if value}
    try:
        found = search(tx, SearchInput(wanted.query, context.result_bytes, filters, wanted.tags, wanted.limit))
    except ResultTooLarge as error:
        raise ResultTooLarge(f"what is found has more than {context.result_bytes} bytes, too many for an answer; "
                             "set a smaller `limit`") from error
    return Hits(tuple(Hit(view(record), record.score) for record in found))

"""records.search: finds records by their words, best first; filters come before any limit (docs/search.md)."""
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from memory.errors import EmbeddingFault, Refused, ResultTooLarge
from memory.filter.given import Filter
from memory.operation import Context, operation
from memory.operations.records_read import too_large, within
from memory.query import Query, match_all, match_any, parse
from memory.recall.languages import Language
from memory.record import Record
from memory.record_view import Name, RecordView, Tags, view
from memory.sqlite.filter_sql import compiled
from memory.sqlite.filters import Clause, Conditions
from memory.sqlite.store import Transaction

Mode = Literal["fts", "hybrid", "semantic"]
BEST = 10   # how many records a ranked search answers with, unless it is told
DEFAULT_LANGUAGE = "english"


@dataclass(frozen=True, slots=True)
class SearchInput:
    """What to find. All words must be there; every tag of `tags` too. A result of more than `max_bytes` is refused.

    Filters in the query and these hold together. Where `mode` is "hybrid" any of the words will do, in any form of theirs,
    and records are ranked by them, by their neighbours and by their thread, and by what they mean where the store has vectors;
    where it is "semantic", by what they mean alone. See docs/search.md.
    """

    query: str
    max_bytes: int
    filters: dict[str, str] = field(default_factory=dict)   # of kind, scope
    tags: tuple[str, ...] = ()
    limit: int | None = None
    scored: bool = True   # whether the scores are wanted; they cost as much again
    mode: Mode = "fts"
    language: str = DEFAULT_LANGUAGE   # of stems and stop words, where the mode is not "fts"; "none" for neither
    given: Clause | None = None   # a filter, compiled


def search(tx: Transaction, wanted: SearchInput) -> list[Record]:
    """The matching records by FTS5 relevance, each with its score where it is wanted. Raises ResultTooLarge, and VectorAwaited.

    A query of filters alone finds all that they let pass, newest first; one without anything, nothing.
    """
    query = parse(wanted.query)
    conditions = conditions_of(query, wanted)
    if wanted.mode != "fts" and query.wants_words:
        return within(wanted.max_bytes, tx.records.at_rows(_ranked(tx, wanted, query, conditions)))
    match, unwanted = match_all(query), match_any(query)
    if match:
        return within(wanted.max_bytes, tx.records.search(match, unwanted, conditions, wanted.limit, scored=wanted.scored))
    return within(wanted.max_bytes, tx.records.latest(unwanted, conditions, wanted.limit)) if query.filters else []


def _ranked(tx: Transaction, wanted: SearchInput, query: Query, conditions: Conditions) -> dict[int, float]:
    """Row -> score, best first."""
    limit = BEST if wanted.limit is None else wanted.limit
    plain = not (query.filters or query.excluded or query.phrases or query.prefixes)
    asked = wanted.query if plain else " ".join((*query.words, *query.phrases, *query.prefixes))
    try:
        return tx.ranker.search(query, conditions, limit, wanted.language, asked=asked,
                                semantic=wanted.mode == "semantic").rows()
    except EmbeddingFault as fault:
        raise Refused(str(fault)) from fault


def conditions_of(query: Query, wanted: SearchInput) -> Conditions:
    """The filters of a query and those given beside it."""
    return Conditions(wanted.filters, query.kinds, query.scopes, (*wanted.tags, *query.tags), query.after_ms, query.before_ms,
                      wanted.given)


@dataclass(frozen=True, slots=True)
class SearchRecords:
    """What is looked for."""

    query: Annotated[str, Field(min_length=1)]
    """What to find, as docs/search.md has it; where `mode` is fts, all words must be there."""
    kind: Name = ""
    """Only records of this kind."""
    scope: Name = ""
    """Only records of this scope."""
    tags: Tags = ()
    """Only records with all of these tags."""
    filter: Filter | None = None
    """Only records that pass this filter, as docs/filters.md has it."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 20
    """How many at most; counts after all filters."""
    mode: Mode = "fts"
    """`hybrid` ranks by any of the words, their neighbours and their thread, and by meaning; `semantic` by meaning alone."""
    language: Language = DEFAULT_LANGUAGE
    """Of stems and stop words, where `mode` is not fts; `none` for neither."""


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
    """Finds records by their words or their meaning, best first.

    Raises Refused for too many words, or where nothing can be found by meaning; ResultTooLarge; and VectorAwaited.
    """
    filters = {name: value for name, value in (("kind", wanted.kind), ("scope", wanted.scope)) if value}
    try:
        found = search(tx, SearchInput(wanted.query, context.result_bytes, filters, wanted.tags, wanted.limit,
                                       mode=wanted.mode, language=wanted.language, given=compiled(wanted.filter)))
        return Hits(tuple(_hits(tx, found, context.result_bytes)))
    except ResultTooLarge as error:
        raise ResultTooLarge(f"what is found has more than {context.result_bytes} bytes, too many for an answer; "
                             "set a smaller `limit`") from error


def _hits(tx: Transaction, found: list[Record], most: int) -> Iterator[Hit]:
    """Raises ResultTooLarge where their data is."""
    for record in found:
        further = tx.records.further(record.guid)
        most -= len(record.content) + len(further.data or "")
        if most < 0:
            raise too_large(most)
        yield Hit(view(record, further), record.score)

"""records.search: finds records by their words, best first; filters come before any limit
(docs/search.md)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Struct
from pydantic import Field

from memrelay.memory.errors import EmbeddingFault, Refused, ResultTooLarge
from memrelay.memory.filter.input import Filter
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_read import Room, most_within, size_of, too_large, within
from memrelay.memory.records.record import Record
from memrelay.memory.records.view import Name, RecordView, Tags, view
from memrelay.memory.search.explanation import Explanation, as_run
from memrelay.memory.search.query import (
    HALF_LIFE_DAYS,
    NO_BOOSTS,
    WRONG_MODE,
    Boosts,
    Days,
    Query,
    Weight,
    match_all,
    match_any,
    parse,
)
from memrelay.memory.sqlite.filters import Conditions, Given, compiled
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.text.languages import DEFAULT_LANGUAGE, Language

if TYPE_CHECKING:
    from memrelay.memory.search.results import Ranked

Mode = Literal["fts", "hybrid", "semantic"]
MANY = 50_000  # rows of a store from which on words may be so common that they are not left to FTS5
BEST = 10  # how many records a ranked search answers with, unless it is told


class SearchInput(Struct, frozen=True):
    """What to find. All words must be there; every tag of `tags` too. A result of more than
    `max_bytes` is refused.

    Filters in the query and these hold together. Where `mode` is "hybrid" any of the words will do,
    in any form of theirs,
    and records are ranked by them, by their neighbours and by their thread, and by what they mean
    where the store has vectors;
    where it is "semantic", by what they mean alone. See docs/search.md. A struct, as WriteInput is.
    """

    query: str
    max_bytes: int
    filters: dict[str, str] = {}  # of kind, scope
    tags: tuple[str, ...] = ()
    limit: int | None = None
    mode: Mode = "fts"
    language: str = (
        DEFAULT_LANGUAGE  # of stems and stop words, where the mode is not "fts"; "none" for neither
    )
    boosts: Boosts = NO_BOOSTS  # where the mode is not "fts"
    given: Given | None = None  # a filter, compiled


def search(tx: Transaction, wanted: SearchInput) -> list[Record]:
    """The matching records by FTS5 relevance, each with its score where it is wanted. Raises
    ResultTooLarge, and VectorAwaited.

    A query of filters alone finds all that they let pass, newest first; one without anything,
    nothing.
    """
    query = parse(wanted.query)
    conditions = conditions_of(query, wanted)
    if _is_ranked(query, wanted):
        return within(
            wanted.max_bytes,
            tx.records.at_rows(_ranked(tx, wanted, query, conditions).scores_by_row()),
        )
    return _matching(tx, wanted, query, conditions)


def search_explained(tx: Transaction, wanted: SearchInput) -> tuple[list[Record], Explanation]:
    """The same records with their scores, and how they were found. Costs some ms more, and numpy's
    memory in every mode."""
    query = parse(wanted.query)
    conditions = conditions_of(query, wanted)
    if _is_ranked(query, wanted):
        ranked = _ranked(tx, wanted, query, conditions)
        found = within(wanted.max_bytes, tx.records.at_rows(ranked.scores_by_row()))
        compared = _asked(wanted, query) if any(arm.arm == "vector" for arm in ranked.arms) else ""
        run = as_run(
            wanted.query, query, mode=wanted.mode, language=wanted.language, compared=compared
        )
        return found, tx.ranker.explain(ranked, run, query, conditions, found)
    found = _matching(tx, wanted, query, conditions)
    run = as_run(wanted.query, query, mode=wanted.mode, match=match_all(query))
    return found, tx.ranker.explain_match(run, query, conditions, found)


def _is_ranked(query: Query, wanted: SearchInput) -> bool:
    """Filters alone rank nothing. Raises Refused for boosts of what FTS5 orders."""
    if wanted.boosts and wanted.mode == "fts":
        raise Refused(WRONG_MODE)
    return wanted.mode != "fts" and query.wants_words


def _matching(
    tx: Transaction, wanted: SearchInput, query: Query, conditions: Conditions
) -> list[Record]:
    """By FTS5's relevance."""
    match, unwanted = match_all(query), match_any(query)
    if match:
        limit = most_within(wanted.max_bytes) if wanted.limit is None else wanted.limit
        best = (
            tx.ranker.search_by_relevance(query, conditions, limit)
            if tx.records.last_row >= MANY
            else None
        )
        return within(
            wanted.max_bytes, tx.records.search(match, unwanted, conditions, limit, best=best)
        )
    return (
        within(wanted.max_bytes, tx.records.latest(unwanted, conditions, wanted.limit))
        if query.filters
        else []
    )


def _ranked(tx: Transaction, wanted: SearchInput, query: Query, conditions: Conditions) -> "Ranked":
    """What was found, with all that it was decided by."""
    limit = BEST if wanted.limit is None else wanted.limit
    try:
        return tx.ranker.search(
            query,
            conditions,
            limit,
            wanted.language,
            question=_asked(wanted, query),
            semantic=wanted.mode == "semantic",
            boosts=wanted.boosts,
        )
    except EmbeddingFault as fault:
        raise Refused(str(fault)) from fault


def _asked(wanted: SearchInput, query: Query) -> str:
    """What vectors are compared with: the question as it stands, without its syntax."""
    plain = not (query.filters or query.excluded or query.phrases or query.prefixes)
    return wanted.query if plain else " ".join((*query.words, *query.phrases, *query.prefixes))


def conditions_of(query: Query, wanted: SearchInput) -> Conditions:
    """The filters of a query and those given beside it."""
    return Conditions(
        wanted.filters,
        query.kinds,
        query.scopes,
        (*wanted.tags, *query.tags),
        query.after_ms,
        query.before_ms,
        given=wanted.given,
    )


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
    """`hybrid` ranks by any of the words, their neighbours and their thread, and by meaning;
    `semantic` by meaning alone."""
    language: Language | None = None
    """Of stems and stop words, where `mode` is not fts; `none` for neither. By default the
    store's."""
    recency: Weight = 0.0
    """From 0 to 1: how much of its score a record loses by age at most, where `mode` is not fts."""
    recency_days: Days = HALF_LIFE_DAYS
    """After how many days half of that is lost."""
    importance: Weight = 0.0
    """From 0 to 1: how much a record loses whose `data.importance` is 0 and not 1, where `mode` is
    not fts."""
    explain: bool = False
    """Whether to tell how each hit came to its score, or why there is none."""


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
    explanation: Explanation | None = None
    """Where `explain` asks for it."""


@operation("records.search", access="search", mutates=False)
def search_records(tx: Transaction, wanted: SearchRecords, context: Context) -> Hits:
    """Finds records by their words or their meaning, best first.

    Raises Refused for too many words, or where nothing can be found by meaning; ResultTooLarge; and
    VectorAwaited.
    """
    filters = {
        name: value for name, value in (("kind", wanted.kind), ("scope", wanted.scope)) if value
    }
    boosts = Boosts(wanted.recency, wanted.recency_days, wanted.importance, context.now_ms)
    asked = SearchInput(
        wanted.query,
        context.result_bytes,
        filters,
        wanted.tags,
        wanted.limit,
        mode=wanted.mode,
        language=wanted.language or context.language,
        boosts=boosts,
        given=compiled(wanted.filter),
    )
    try:
        found, explanation = (
            search_explained(tx, asked) if wanted.explain else (search(tx, asked), None)
        )
        return Hits(tuple(_hits(tx, found, context.result_bytes)), explanation)
    except ResultTooLarge as error:
        raise ResultTooLarge(
            f"what is found has more than {context.result_bytes} bytes, too many for an answer; "
            "set a smaller `limit`"
        ) from error


def _hits(tx: Transaction, found: list[Record], most: int) -> Iterator[Hit]:
    """Raises ResultTooLarge where they are too long as JSON; of one alone only what it says counts,
    as in records.get."""
    room = Room(most)
    for record in found:
        further = tx.records.further(record.guid)
        if room.is_short_of(record, further) and (
            len(found) > 1 or size_of(record, further.data) > most
        ):
            raise too_large(most)
        yield Hit(view(record, further), record.score)

"""Searches in records by words or meaning, best first (docs/search.md). Filters apply before the
limit.
"""

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from msgspec import Struct
from pydantic import Field

from memrelay.memory.engine.filter_sql import Conditions, Given, compiled
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.time_zones import DEFAULT_ZONE, MaybeZone, find_zone
from memrelay.memory.errors import EmbeddingFault, Refused, ResultTooLarge
from memrelay.memory.operations import Context, Receipt, operation
from memrelay.memory.records.filters import Filter
from memrelay.memory.records.kinds import is_agent_memory
from memrelay.memory.records.paging import Limit, answer_too_large, too_large
from memrelay.memory.records.reading import (
    Found,
    collect_within,
    max_records_within,
    minimum_size,
    record_budget,
    take_fitting,
)
from memrelay.memory.records.record import Record
from memrelay.memory.records.view import Name, RecordView, Tags, TimeOrNull, time_ms, view
from memrelay.memory.search.explanation import Degraded, EmptyReason, Explanation, as_run
from memrelay.memory.search.query import (
    HALF_LIFE_DAYS,
    NO_BOOSTS,
    WRONG_MODE,
    WRONG_RERANK,
    Boosts,
    Days,
    Query,
    Rerank,
    Weight,
    match_all,
    match_any,
    parse,
    plain,
)
from memrelay.memory.search.text.languages import DEFAULT_LANGUAGE, Language
from memrelay.memory.search.validity import LOWERED, valid_first

if TYPE_CHECKING:
    from memrelay.memory.search.results import Ranked

Mode = Literal["fts", "hybrid", "semantic"]
# From this many rows on, FTS5 may be slow for common words, and the ranker computes their scores.
MIN_ROWS_FOR_RANKER = 50_000
DEFAULT_LIMIT = 10  # records returned by a ranked search without a limit


class SearchInput(Struct, frozen=True):
    """A query and its filters. Records must meet the filters of both. A struct for speed.

    In mode "fts", records must contain all words, and are ordered by FTS5. In mode "hybrid",
    records with any word in any form are ranked by words, neighbors and thread, and by meaning if
    the store has vectors. Mode "semantic" ranks by meaning alone. See docs/search.md.

    A result of more than `max_bytes` raises an error.
    """

    query: str
    max_bytes: int
    filters: dict[str, str] = {}  # by kind, scope
    tags: tuple[str, ...] = ()  # all of them
    limit: int | None = None
    mode: Mode = "fts"
    language: str = DEFAULT_LANGUAGE  # of stems and stop words in ranked modes; "none" for neither
    boosts: Boosts = NO_BOOSTS  # in ranked modes
    given: Given | None = None  # a compiled filter
    plain: bool = False  # whether the query has no syntax
    with_agents: bool = False  # whether the memory of agents can be found
    timezone: str = DEFAULT_ZONE  # of days and times that the query names
    valid_at: int | None = None  # Unix ms: records that are not valid then come last; None for now
    may_wait: bool = True  # whether mode "hybrid" waits for an embedder that is loading
    rerank: Rerank | None = None  # whether a model rereads the best turns, in mode "hybrid"


class SearchRun(NamedTuple):
    """The records that a search found, best first, and how it found them."""

    records: list[Record]
    mode: Mode
    degraded: Degraded | None
    explanation: Explanation | None  # if it was asked for, or nothing was found


@dataclass(frozen=True, slots=True)
class SearchRecords:
    """A search."""

    query: Annotated[str, Field(min_length=1)]
    """The query (docs/search.md). In mode fts, records must contain all words."""
    kind: Name = ""
    """Only records of this kind. Without it, kinds of agent memory (`memory.*`) are left out."""
    scope: Name = ""
    """Only records of this scope."""
    tags: Tags = ()
    """Only records with all of these tags."""
    filter: Filter | None = None
    """Only records that pass this filter (docs/filters.md)."""
    limit: Limit = 20
    """The maximum number of records, after all filters."""
    mode: Mode | None = None
    """`fts`: all words. `hybrid`: any words, with context and meaning. `semantic`: meaning.

    By default `hybrid` if the store has vectors, the scores are weighted or `rerank` is set, else
    `fts`. Such a search does not wait for an embedder that is loading: it finds records by their
    words.
    """
    wait: bool = False
    """Whether a search without a `mode` waits for an embedder that is loading."""
    language: Language | None = None
    """The language of stems and stop words in ranked modes; `none` for neither.

    By default the language of the store.
    """
    recency: Weight = 0.0
    """The largest share of its score that a record loses by age, 0 to 1, in ranked modes."""
    recency_days: Days = HALF_LIFE_DAYS
    """The half-life of half of that share, in days. The other half fades twelve times slower."""
    importance: Weight = 0.0
    """The share of its score that a record loses if `data.importance` is 0, in ranked modes."""
    explain: bool = False
    """Whether to explain the score of each hit, or why nothing was found."""
    plain: bool = False
    """Whether the query is plain text: quotes, stars, minus signs and filters are no syntax."""
    timezone: MaybeZone = ""
    """The time zone of `after:`, `before:` and phrases such as `yesterday`, like `Europe/Berlin`.

    By default that of the bundle, else UTC.
    """
    valid_at: TimeOrNull = ""
    """Records that are not valid at this time come last; by default now."""
    rerank: Rerank | None = None
    """`model`: a cross-encoder rereads the best turns, in `hybrid`. It takes up to 0.5 s.

    It needs the extra `rerank`, and changes only the order of conversations (docs/search.md).
    """
    receipt: Receipt = False
    """Whether to leave a receipt (docs/receipts.md), or the id of the answer that will use it."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A record that was found."""

    record: RecordView
    score: float
    """Higher is better."""


@dataclass(frozen=True, slots=True)
class Hits:
    """The records found, best first."""

    items: tuple[Hit, ...]
    mode: Mode
    """The mode of the search; `fts` for a query of filters alone."""
    degraded: Degraded | None = None
    """Why meaning was not compared with every record, in the modes `hybrid` and `semantic`.

    `loading`: the embedder is loading; search again. `incomplete`: some records have no vector yet.
    `failed`: `explain` shows the error of the embedder.
    """
    nothing: EmptyReason | None = None
    """Why nothing was found."""
    explanation: Explanation | None = None
    """The explanation, if `explain` is set."""


@operation("records.search", access="search", mutates=False, takes_as_of=True)
def search_records(tx: Transaction, request: SearchRecords, context: Context) -> Hits:
    """Find records by their words or their meaning, best first.

    Raises Refused: when the query exceeds a limit, `valid_at` is no time, or the mode needs vectors
    and there are none.
    Raises ResultTooLarge: when the result exceeds the size of an answer.
    Raises VectorPending: when the vector of the query is not computed yet.
    """
    named = {"kind": request.kind, "scope": request.scope}
    filters = {name: value for name, value in named.items() if value}
    boosts = Boosts(request.recency, request.recency_days, request.importance, context.now_ms)
    query = SearchInput(
        request.query,
        context.result_bytes,
        filters,
        request.tags,
        request.limit,
        mode=request.mode or _default_mode(tx, boosts, request.rerank),
        language=request.language or context.language,
        boosts=boosts,
        given=compiled(request.filter),
        plain=request.plain,
        with_agents=is_agent_memory(request.kind),
        timezone=request.timezone or context.timezone,
        valid_at=time_ms("valid_at", request.valid_at),
        may_wait=request.wait or request.mode is not None,
        rerank=request.rerank,
    )
    try:
        run = run_search(tx, query, explain=request.explain)
        hits = tuple(_hits(tx, run.records, context.result_bytes))
    except ResultTooLarge as error:
        raise answer_too_large(context.result_bytes) from error
    nothing = None if run.explanation is None else run.explanation.nothing
    explanation = run.explanation if request.explain else None
    return Hits(hits, run.mode, run.degraded, nothing, explanation)


def _default_mode(tx: Transaction, boosts: Boosts, rerank: Rerank | None) -> Mode:
    """Return the mode of a search that names none."""
    has_vectors = (
        tx.meaning is not None
        and tx.meaning.questions.embedder.configured
        and tx.vectors.serving() is not None
    )
    return "hybrid" if has_vectors or boosts or rerank else "fts"


def _hits(tx: Transaction, records: list[Record], most: int) -> Iterator[Hit]:
    """Yield the hits. Raises ResultTooLarge if they are too large in JSON.

    For a single hit, only its text and data count, as in records.get.
    """
    budget = record_budget(most)
    for record in records:
        extras = tx.records.extras(record.guid)
        fits = budget.fits((record, extras))
        is_alone = len(records) == 1 and minimum_size(record, extras.data) <= most
        if not (fits or is_alone):
            raise too_large(most)
        yield Hit(view(record, extras), record.score)


def search(tx: Transaction, request: SearchInput) -> list[Record]:
    """Return the matching records with their scores, best first.

    A query of only filters returns all records that pass them, newest first. An empty query
    returns nothing.

    Raises ResultTooLarge: when the result exceeds `max_bytes`.
    Raises SearchTooLong: when the search exceeds its time limit.
    Raises VectorPending: when the vector of the query is not computed yet.
    """
    query = _parse(request)
    conditions = combine_conditions(tx, query, request)
    with tx.bounded_search():
        if _is_ranked(query, request):
            return _read_ranked(tx, request, _rank(tx, request, query, conditions))
        return _match(tx, request, query, conditions)


def search_best(tx: Transaction, request: SearchInput) -> Found:
    """Return the best matching records that fit into `max_bytes`, and the number of the others.

    Otherwise like `search`. Raises VectorPending: when the vector of the query is not computed yet.
    """
    query = _parse(request)
    conditions = combine_conditions(tx, query, request)
    with tx.bounded_search():
        if _is_ranked(query, request):
            scores = _rank(tx, request, query, conditions).scores_by_row()
            records, _ = take_fitting(request.max_bytes, tx.records.at_rows(scores))
            return Found(records, len(scores) - len(records))
        matches = _find_matches(tx, request, query, conditions)
        records, has_more = take_fitting(request.max_bytes, matches)
        if not has_more:
            return Found(records)
        total = tx.records.count_matches(match_all(query), match_any(query), conditions)
        return Found(records, total - len(records))


def search_explained(tx: Transaction, request: SearchInput) -> tuple[list[Record], Explanation]:
    """Return the same records and an explanation. Costs some ms more, and loads numpy."""
    run = run_search(tx, request, explain=True)
    assert run.explanation is not None
    return run.records, run.explanation


def run_search(tx: Transaction, request: SearchInput, *, explain: bool) -> SearchRun:
    """Return the same records, the mode that found them, and whether it was degraded.

    With `explain`, or if there are none, an explanation too. Raises as `search` does.
    """
    query = _parse(request)
    conditions = combine_conditions(tx, query, request)
    with tx.bounded_search():
        if not _is_ranked(query, request):
            records, explanation = _match(tx, request, query, conditions), None
            if explain or not records:
                run = as_run(request.query, query, mode=request.mode, match=match_all(query))
                explanation = tx.ranker.explain_match(run, query, conditions, records)
                explanation = _mark_lowered(tx, request, explanation)
            return SearchRun(records, "fts", None, explanation)
        ranked = _rank(tx, request, query, conditions)
        records, explanation = _read_ranked(tx, request, ranked), None
        if explain or not records:
            has_vectors = any(arm.arm == "vector" for arm in ranked.arms)
            compared = ranked.compared if has_vectors else ""
            run = as_run(
                request.query,
                query,
                mode=request.mode,
                language=request.language,
                compared=compared,
            )
            explanation = tx.ranker.explain(ranked, run, query, conditions, records)
            explanation = _mark_lowered(tx, request, explanation)
        return SearchRun(records, request.mode, tx.ranker.degraded(ranked), explanation)


def _parse(request: SearchInput) -> Query:
    """Return the parsed query. Raises Refused."""
    if request.plain:
        return plain(request.query)
    return parse(request.query, find_zone(request.timezone))


def combine_conditions(tx: Transaction, query: Query, request: SearchInput) -> Conditions:
    """Return the combined filters of the query and the input.

    The memory of agents is left out unless the input includes it.
    """
    return Conditions(
        request.filters,
        query.kinds,
        query.scopes,
        (*request.tags, *query.tags),
        query.after_ms,
        query.before_ms,
        given=request.given,
        without_agents=tx.records.has_agent_memory and not request.with_agents,
    )


def _is_ranked(query: Query, request: SearchInput) -> bool:
    """Return whether the search ranks records. Raises Refused for options of another mode."""
    if request.boosts and request.mode == "fts":
        raise Refused(WRONG_MODE)
    if request.rerank and (request.boosts or request.mode != "hybrid"):
        raise Refused(WRONG_RERANK)
    return request.mode != "fts" and query.wants_words


def _rank(tx: Transaction, request: SearchInput, query: Query, conditions: Conditions) -> "Ranked":
    """Run a ranked search. Raises Refused if the mode needs vectors and there are none."""
    limit = DEFAULT_LIMIT if request.limit is None else request.limit
    try:
        return tx.ranker.search(
            query,
            conditions,
            limit,
            request.language,
            question=_question(request, query),
            semantic=request.mode == "semantic",
            boosts=request.boosts,
            zone=find_zone(request.timezone),
            may_wait=request.may_wait,
            valid_at=request.valid_at,
            by_model=request.rerank == "model",
        )
    except EmbeddingFault as fault:
        raise Refused(str(fault)) from fault


def _read_ranked(tx: Transaction, request: SearchInput, ranked: "Ranked") -> list[Record]:
    """Return the records of a ranked result. Raises ResultTooLarge."""
    return collect_within(request.max_bytes, tx.records.at_rows(ranked.scores_by_row()))


def _question(request: SearchInput, query: Query) -> str:
    """Return the text to compare with vectors: the query without its syntax."""
    plain = not (query.filters or query.excluded or query.phrases or query.prefixes)
    return request.query if plain else " ".join((*query.words, *query.phrases, *query.prefixes))


def _match(
    tx: Transaction, request: SearchInput, query: Query, conditions: Conditions
) -> list[Record]:
    """Return all matches. Raises ResultTooLarge."""
    return collect_within(request.max_bytes, _find_matches(tx, request, query, conditions))


def _find_matches(
    tx: Transaction, request: SearchInput, query: Query, conditions: Conditions
) -> Iterable[Record]:
    """Yield matches in the order of FTS5, or the latest records for a query of filters."""
    match, excluded, limit = match_all(query), match_any(query), request.limit
    if not match and not query.filters:
        return []
    if match and limit is None:
        limit = max_records_within(request.max_bytes)
    most, lowered = limit, frozenset[str]()
    if tx.records.has_periods:
        lowered = frozenset(tx.records.not_valid(request.valid_at).values())
        most = None if limit is None else limit + len(lowered)
    if not match or most is None:
        found = tx.records.latest(excluded, conditions, most)
    else:
        best = None
        if tx.records.last_row >= MIN_ROWS_FOR_RANKER:
            best = tx.ranker.search_by_relevance(query, conditions, most)
        found = tx.records.search(match, excluded, conditions, most, best=best)
    return _lower(found, lowered, limit) if lowered else found


def _lower(found: Iterable[Record], lowered: Set[str], limit: int | None) -> Iterator[Record]:
    """Yield up to `limit` records, those with these guids last and with a lower score."""
    for record in valid_first(found, lambda record: record.guid in lowered, limit):
        yield record._replace(score=record.score * LOWERED) if record.guid in lowered else record


def _mark_lowered(tx: Transaction, request: SearchInput, explanation: Explanation) -> Explanation:
    """Return the explanation with the hits marked that are not valid."""
    if not (lowered := frozenset(tx.records.not_valid(request.valid_at).values())):
        return explanation
    hits = tuple(replace(hit, valid=hit.guid not in lowered) for hit in explanation.hits)
    return replace(explanation, hits=hits)

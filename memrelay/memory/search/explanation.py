"""The explanation of a search: how each hit got its score, or why nothing was found.

docs/search.md describes the fields.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec.structs import asdict

from memrelay.memory.engine.filter_sql import Conditions, Given
from memrelay.memory.search.query import Query
from memrelay.memory.search.text.folding import shown

MAX_EXPLAINED = 100  # hits
Where = Literal["record", "window", "segment"]
State = Literal[
    "wanted", "corrected", "unknown", "too common", "speaker", "stop word", "not looked for"
]
# Why meaning was not compared with all records.
Degraded = Literal["loading", "no embedder", "no vectors", "incomplete", "failed"]
Reason = Literal[
    "nothing asked",
    "no records",
    "unknown",
    "below threshold",
    "filtered",
    "excluded",
    "not together",
]


@dataclass(frozen=True, slots=True)
class QueryAsRun:
    """The query as the search understood it."""

    text: str
    mode: str
    language: str  # of stems and stop words; "" if the mode uses none
    words: tuple[str, ...]
    phrases: tuple[str, ...]
    prefixes: tuple[str, ...]
    excluded: tuple[str, ...]  # FTS5 expressions
    match: str  # the FTS5 expression that a record must match; "" in ranked modes
    compared: str  # the text that was compared with vectors; "" if none was


@dataclass(frozen=True, slots=True)
class ExplainedTerm:
    """A term of the query."""

    term: str
    state: State
    records: int  # that hold it, approximately
    spellings: tuple[str, ...]  # that match it
    suggestion: str | None  # the nearest word of the store, for an unknown term


@dataclass(frozen=True, slots=True)
class ExplainedRetriever:
    """The score of a hit in one retriever.

    The score of the hit is the sum of its retrievers' shares, multiplied by its factors.
    """

    arm: str  # "text" or "vector"; in mode fts, "content" or "parts"
    rank: int | None  # among all records that may be found; None if the retriever does not find it
    raw: float  # in the retriever's own measure: BM25, a cosine
    score: float  # calibrated, from 0 to 1; in mode fts, the raw score
    weight: float
    share: float  # weight times score


@dataclass(frozen=True, slots=True)
class MatchedTerm:
    """A term of a hit, and the smallest unit around the hit that contains it."""

    term: str
    where: Where


@dataclass(frozen=True, slots=True)
class ExplainedHit:
    """How one record was found and scored."""

    guid: str
    rank: int
    score: float
    arms: tuple[ExplainedRetriever, ...]
    # time, recency, importance, validity: multiply the sum of shares
    factors: dict[str, float]
    terms: tuple[MatchedTerm, ...]
    speaker: bool  # whether the query names the speaker; included in the raw text score
    read: float | None = None  # the score after reranking, which sets the order of the best
    # what each signal of reading (docs/search.md) added to the log odds of the score
    signals: dict[str, float] = field(default_factory=dict)
    valid: bool = True  # whether it is valid at the time; all others come last


@dataclass(frozen=True, slots=True)
class EmptyReason:
    """The reason why a search found nothing."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one search."""

    query: QueryAsRun
    filters: dict[str, Any]  # of the query and of the input, combined
    records: int  # in the store
    terms: tuple[ExplainedTerm, ...]
    # the largest share of the query in one window, by weight; None if it does not count
    coverage: float | None
    least_coverage: float | None  # below it, words find nothing
    least_cosine: float | None  # the calibrated score at which meaning alone finds a record
    notes: tuple[str, ...]  # what was left out, and why
    nothing: EmptyReason | None
    hits: tuple[ExplainedHit, ...]  # the first hundred


def as_run(
    text: str, query: Query, *, mode: str, language: str = "", match: str = "", compared: str = ""
) -> QueryAsRun:
    """Return the parsed query in the form of an explanation."""
    return QueryAsRun(
        text,
        mode,
        language,
        tuple(map(shown, query.words)),
        query.phrases,
        query.prefixes,
        tuple(map(shown, query.excluded)),
        shown(match),
        compared,
    )


def filters_by_name(conditions: Conditions) -> dict[str, Any]:
    """Return the conditions that are set, by name."""
    named: dict[str, Any] = dict(conditions.equal)
    for name, value in asdict(conditions).items():
        if isinstance(value, Given):
            named["filter"] = value.told
        elif name not in ("equal", "without_agents") and value not in (None, (), {}, ""):
            named[name] = list(value) if isinstance(value, tuple) else value
    return named

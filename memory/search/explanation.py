"""What a search tells of itself where it is asked to: how each hit came to its score, or why there
is none (docs/search.md)."""

from dataclasses import dataclass
from typing import Any, Literal

from msgspec.structs import asdict

from memrelay.memory.search.query import Query
from memrelay.memory.sqlite.filters import Conditions, Given
from memrelay.memory.text.folding import shown

MOST_EXPLAINED = 100  # hits
Where = Literal["record", "window", "segment"]
State = Literal["wanted", "unknown", "too common", "speaker", "stop word", "not looked for"]
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
class AsRun:
    """The query as it was run."""

    text: str
    mode: str
    language: str  # of stems and stop words; "" where the mode knows none
    words: tuple[str, ...]
    phrases: tuple[str, ...]
    prefixes: tuple[str, ...]
    excluded: tuple[str, ...]  # expressions of FTS5
    match: str  # the expression of FTS5 that a record must meet; "" where records are ranked
    compared: str  # what vectors were compared with; "" where none were


@dataclass(frozen=True, slots=True)
class ExplainedTerm:
    """Something that was looked for."""

    term: str
    state: State
    records: int  # that hold it, about
    spellings: tuple[str, ...]  # by which it was found
    suggestion: str | None  # the nearest word of the store, of one that no record holds


@dataclass(frozen=True, slots=True)
class ExplainedArm:
    """What one arm says of a hit. The shares of a hit's arms, times its factors, are its score."""

    arm: str  # text, vector; where the mode is fts, content or parts
    rank: int | None  # among all that may be found; None where the arm does not find it
    raw: float  # in the arm's own measure: BM25, a cosine
    score: float  # calibrated, from 0 to 1; where the mode is fts, the raw one
    weight: float
    share: float  # weight times score


@dataclass(frozen=True, slots=True)
class Held:
    """A term that a hit is found by, and how near to it that is."""

    term: str
    where: Where


@dataclass(frozen=True, slots=True)
class ExplainedHit:
    """Why a record was found where it was."""

    guid: str
    rank: int
    score: float
    arms: tuple[ExplainedArm, ...]
    factors: dict[str, float]  # time, asks, recency, importance: by what the shares were multiplied
    terms: tuple[Held, ...]
    speaker: bool  # whether the query names who said it, which is in the text arm's raw score
    read: float | None = (
        None  # its score once it was read again, of the best alone, which stand in that order
    )
    raised: float | None = (
        None  # its score by itself, for which it comes before others as the first of its thread
    )


@dataclass(frozen=True, slots=True)
class Nothing:
    """Why nothing was found."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Of one search."""

    query: AsRun
    filters: dict[str, Any]  # those of the query and those beside it, together
    records: int  # that the store has
    terms: tuple[ExplainedTerm, ...]
    coverage: (
        float | None
    )  # how much of the query the store knows, by weight; None where that does not count
    least_coverage: float | None  # below which words find nothing
    least_cosine: (
        float | None
    )  # the calibrated score from which on a record is found for its meaning alone
    notes: tuple[str, ...]  # what was left out, and why
    nothing: Nothing | None
    hits: tuple[ExplainedHit, ...]  # the first hundred


def as_run(
    text: str, query: Query, *, mode: str, language: str = "", match: str = "", compared: str = ""
) -> AsRun:
    """The query, read."""
    return AsRun(
        text,
        mode,
        language,
        query.words,
        query.phrases,
        query.prefixes,
        tuple(map(shown, query.excluded)),
        shown(match),
        compared,
    )


def filters_told(conditions: Conditions) -> dict[str, Any]:
    """The conditions that are set, by name."""
    told: dict[str, Any] = dict(conditions.equal)
    for name, value in asdict(conditions).items():
        if isinstance(value, Given):
            told["filter"] = value.told
        elif name != "equal" and value not in (None, (), {}, ""):
            told[name] = list(value) if isinstance(value, tuple) else value
    return told

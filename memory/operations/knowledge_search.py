"""knowledge.search: finds entries of named memories by what is meant, or by their words where
nothing knows that."""

import math
from dataclasses import dataclass
from typing import Annotated

import orjson
from pydantic import Field

from memrelay.memory.errors import Refused, ResultTooLarge
from memrelay.memory.filter.input import Filter
from memrelay.memory.operation import Context, operation
from memrelay.memory.records.data import kept_json
from memrelay.memory.records.ids import make_id
from memrelay.memory.records.memory_view import KIND, Globs, Ident, Tag
from memrelay.memory.records.record import Record
from memrelay.memory.records.view import MOST_TAGS
from memrelay.memory.search.query import plain
from memrelay.memory.sqlite.filters import Conditions, compiled
from memrelay.memory.sqlite.memories import Memory
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.text.languages import Language
from memrelay.memory.timestamps import Moment, as_time

MOST = 1000
MOST_CHARACTERS = 1 << 16  # of a question
MOST_MEMORIES = 1000  # that one question names
# that it may come to, by tags or as all of them: SQLite takes 32,766 values in a condition
MOST_SEARCHED = 20_000
ARMS = {"text": "words", "vector": "meaning"}
MemoryIds = Annotated[tuple[Ident, ...], Field(max_length=MOST_MEMORIES)]
MemoryTags = Annotated[tuple[Tag, ...], Field(max_length=MOST_TAGS)]


@dataclass(frozen=True, slots=True)
class SearchKnowledge:
    """What is looked for, and in which memories: those of `memory_ids` and of `memory_tags`; all
    where neither is given."""

    query: Annotated[str, Field(max_length=MOST_CHARACTERS)] = ""
    """What to find; without it, the oldest entries first."""
    memory_ids: MemoryIds | None = None
    """Only entries of these memories; an id that is none finds nothing."""
    memory_tags: MemoryTags | None = None
    """And of memories with a tag that one of these fits; `*` is any text, `?` one character."""
    entry_tags: Globs = ()
    """Only entries with a tag that one of these fits."""
    min_score: Annotated[float, Field(ge=0, le=1)] | None = None
    """Only entries with at least this score; without it the best of all, which may have little to
    do with the query."""
    limit: Annotated[int, Field(ge=0, le=MOST)] = 10
    """How many at most; counts after all filters."""
    language: Language | None = None
    """Of stems and stop words; `none` for neither. Left out, the store's."""
    filter: Filter | None = None
    """Only entries whose records pass this filter, as docs/filters.md has it; `data` is an entry's
    metadata."""


@dataclass(frozen=True, slots=True)
class KnowledgeResult:
    """An entry that was found."""

    entry_id: str
    memory_id: str
    memory_name: str
    content: str
    source: str
    tags: tuple[str, ...]
    score: float | None
    """From 0 to 1, the higher the better; null where nothing was asked."""
    why: str
    """What the score is made of."""
    created_at: Moment
    updated_at: Moment


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What was found, best first."""

    results: tuple[KnowledgeResult, ...]
    degraded: bool
    """Whether words alone were looked at."""
    reason: str
    """Why that was."""


@operation("knowledge.search", access="search", mutates=False, at_home=True)
def search_knowledge(tx: Transaction, wanted: SearchKnowledge, context: Context) -> Knowledge:
    """Finds entries of named memories by meaning and words, best first; by words alone where there
    are no vectors.

    What is best is found however little it is, as in SOAT: `min_score` says what is enough. Raises
    Refused for too many words
    or memories, ResultTooLarge, and VectorAwaited.
    """
    return find_knowledge(tx, wanted, context, floor=False)


def find_knowledge(
    tx: Transaction, wanted: SearchKnowledge, context: Context, *, floor: bool
) -> Knowledge:
    """The same; with the `floor` only what has to do with the query, by the bounds that hold for
    every search of records."""
    memories = {memory.id: memory for memory in _memories(tx, wanted)}
    if not memories or not wanted.limit:
        return Knowledge((), False, "")
    if len(memories) > MOST_SEARCHED:
        raise Refused(
            f"these are {len(memories)} memories, and {MOST_SEARCHED} are searched at most: name them by id or by "
            "tag"
        )
    within = Conditions(
        {"kind": KIND},
        scopes=tuple(memories),
        globs=wanted.entry_tags,
        given=compiled(wanted.filter),
    )
    query = plain(wanted.query)
    if not wanted.query.strip():
        entries = tx.records.page(within, "asc", None, wanted.limit)
        return Knowledge(
            _fitting([_told(tx, memories, record, None, "") for _, record, _ in entries], context),
            False,
            "",
        )
    ranked = tx.ranker.search(
        query,
        within,
        wanted.limit,
        wanted.language or context.language,
        question=wanted.query,
        floor=floor,
    )
    rows = {
        row: score
        for row, score in ranked.scores_by_row().items()
        if score_of(score) >= (wanted.min_score or 0)
    }
    shares = ranked.arm_scores_by_row()
    results = [
        _told(tx, memories, record, score_of(record.score), _why(shares[row]))
        for row, score in rows.items()
        for record in tx.records.at_rows({row: score})
    ]
    return Knowledge(_fitting(results, context), bool(ranked.missing_arm), ranked.missing_arm)


def score_of(fused: float) -> float:
    """A ranker's score on the scale of the document, whose example asks for 0.6: half of all that
    can be had is 0.71."""
    return round(math.sqrt(fused), 4)


def _memories(tx: Transaction, wanted: SearchKnowledge) -> list[Memory]:
    """Those that are named and there. Named none, all; an empty list names none."""
    if wanted.memory_ids is None and wanted.memory_tags is None:
        return tx.memories.every()
    found = [tx.memories.find(ident) for ident in dict.fromkeys(wanted.memory_ids or ())]
    tagged = tx.memories.every(wanted.memory_tags) if wanted.memory_tags else []
    return [memory for memory in found if memory is not None] + tagged


def _told(
    tx: Transaction, memories: dict[str, Memory], record: Record, score: float | None, why: str
) -> KnowledgeResult:
    return KnowledgeResult(
        make_id("me", tx.memory_id, record.guid),
        record.scope,
        memories[record.scope].name,
        record.content,
        record.source,
        tuple(kept_json(record.tags, record.guid)),
        score,
        why,
        as_time(record.created_at),
        as_time(record.updated_at),
    )


def _why(shares: dict[str, float]) -> str:
    return ", ".join(f"{ARMS.get(arm, arm)} {score:.2f}" for arm, score in shares.items())


def _fitting(results: list[KnowledgeResult], context: Context) -> tuple[KnowledgeResult, ...]:
    """All of them. Raises ResultTooLarge."""
    if len(results) > 1 and sum(len(orjson.dumps(one)) for one in results) > context.result_bytes:
        raise ResultTooLarge(
            f"what is found has more than {context.result_bytes} bytes, too many for an answer; set a smaller "
            "`limit`"
        )
    return tuple(results)

"""knowledge.search: finds entries of named memories by meaning and words."""

from bisect import bisect
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import orjson
from pydantic import Field

from memrelay.memory.errors import Refused, ResultTooLarge
from memrelay.memory.filter.input import Filter
from memrelay.memory.operation import Context, operation
from memrelay.memory.records.data import load_json
from memrelay.memory.records.ids import make_id
from memrelay.memory.records.memory_view import KIND, Globs, Ident, Tag
from memrelay.memory.records.record import Record
from memrelay.memory.records.view import MOST_TAGS
from memrelay.memory.search.query import plain
from memrelay.memory.sqlite.filters import Conditions, compiled
from memrelay.memory.sqlite.memories import Memory
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.text.languages import Language
from memrelay.memory.timestamps import Moment, format_time

MOST = 1000
MOST_CHARACTERS = 1 << 16  # of a query
MAX_MEMORIES = 1000  # named in one query
# Memories searched by tags or as all of them. SQLite allows 32,766 values in a condition.
MAX_SEARCHED = 20_000
# Facts are short: a question seldom has their words, so meaning counts more than in records.
VECTOR_SHARE = 0.7
# Scores of SOAT at fused scores, linear between them. The questions in
# tests/memory/operations/test_knowledge_scores.py reach a fused score of 0.2 if an entry answers
# them.
FUSED, SCORES = (0.0, 0.2, 1.0), (0.0, 0.6, 1.0)
RELEVANT = 0.4  # low: it leaves out only what is unrelated
NO_VECTOR_YET = "some entries have no vector yet and are found by their words only; try again soon"
ARMS = {"text": "words", "vector": "meaning"}
MemoryIds = Annotated[tuple[Ident, ...], Field(max_length=MAX_MEMORIES)]
MemoryTags = Annotated[tuple[Tag, ...], Field(max_length=MOST_TAGS)]


@dataclass(frozen=True, slots=True)
class SearchKnowledge:
    """A query, and the memories to search: those of `memory_ids` and `memory_tags`, or all."""

    query: Annotated[str, Field(max_length=MOST_CHARACTERS)] = ""
    """The question or words to find. If omitted, the oldest entries are returned."""
    memory_ids: MemoryIds | None = None
    """Only entries of these memories. An unknown id is ignored."""
    memory_tags: MemoryTags | None = None
    """Also entries of memories with a tag that matches one of these; `*` and `?` are wildcards."""
    entry_tags: Globs = ()
    """Only entries with a tag that matches one of these."""
    min_score: float | None = None
    """Only entries with at least this score. By default the best of all, relevant or not."""
    limit: Annotated[int, Field(ge=0, le=MOST)] = 10
    """The maximum number of entries, after all filters."""
    language: Language | None = None
    """The language of stems and stop words; `none` for neither. By default the store's."""
    filter: Filter | None = None
    """Only entries that pass this filter (docs/filters.md); `data` is the metadata of an entry."""


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
    """From 0 to 1, higher is better; null without a query."""
    why: str
    """The scores of words and meaning."""
    created_at: Moment
    updated_at: Moment


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The entries found, best first."""

    results: tuple[KnowledgeResult, ...]
    degraded: bool
    """Whether the search used only words, or an entry had no vector yet."""
    reason: str
    """The reason for that."""


@operation("knowledge.search", access="search", mutates=False, home="memories")
def search_knowledge(tx: Transaction, wanted: SearchKnowledge, context: Context) -> Knowledge:
    """Find entries of named memories by meaning and words, best first.

    Without vectors, only words count. As in SOAT, the best entries are returned however low their
    scores are; use `min_score` to exclude them.

    Raises Refused: when the query has too many words or memories.
    Raises ResultTooLarge: when the result exceeds the size of an answer.
    Raises VectorPending: when the vector of the query is not computed yet.
    """
    return find_knowledge(tx, wanted, context, relevant=False)


def find_knowledge(
    tx: Transaction, wanted: SearchKnowledge, context: Context, *, relevant: bool
) -> Knowledge:
    """Find entries; with `relevant`, only those that score at least `RELEVANT`.

    If only words can be compared, the limit of record searches decides instead: the score of a
    word is low if most entries have it. Raises the same errors as `search_knowledge`.
    """
    memories = {memory.id: memory for memory in _memories(tx, wanted)}
    if not memories or not wanted.limit:
        return Knowledge((), False, "")
    if len(memories) > MAX_SEARCHED:
        raise Refused(
            f"the search covers {len(memories)} memories; name at most {MAX_SEARCHED}, "
            "by id or by tag"
        )
    within = Conditions(
        {"kind": KIND},
        scopes=tuple(memories),
        globs=wanted.entry_tags,
        given=compiled(wanted.filter),
    )
    if not wanted.query.strip():
        entries = tx.records.page(within, "asc", None, wanted.limit)
        results = [_result(tx, memories, record, None, "") for _, record, _ in entries]
        return Knowledge(_checked_size(results, context), False, "")
    with tx.bounded_search():
        return _search(tx, wanted, within, memories, context, relevant=relevant)


def _search(
    tx: Transaction,
    wanted: SearchKnowledge,
    within: Conditions,
    memories: dict[str, Memory],
    context: Context,
    *,
    relevant: bool,
) -> Knowledge:
    rank = partial(
        tx.ranker.search,
        plain(wanted.query),
        within,
        wanted.limit,
        wanted.language or context.language,
        question=wanted.query,
        vector_share=VECTOR_SHARE,
    )
    ranked, least = rank(floor=False), wanted.min_score or 0
    if relevant and ranked.missing_arm:
        ranked = rank(floor=True)
    elif relevant:
        least = RELEVANT
    shares = ranked.arm_scores_by_row()
    results = [
        _result(tx, memories, record, soat_score(record.score), _explain_score(shares[row]))
        for row, score in ranked.scores_by_row().items()
        if soat_score(score) >= least
        for record in tx.records.at_rows({row: score})
    ]
    reason = ranked.missing_arm or NO_VECTOR_YET * tx.ranker.has_missing_vectors(ranked)
    return Knowledge(_checked_size(results, context), bool(reason), reason)


def soat_score(fused: float) -> float:
    """Return a fused score on SOAT's scale, where 0.6 separates related from unrelated texts."""
    at = min(bisect(FUSED, fused), len(FUSED) - 1)
    low, high = FUSED[at - 1 : at + 1]
    least, most = SCORES[at - 1 : at + 1]
    return round(least + (fused - low) / (high - low) * (most - least), 4)


def _memories(tx: Transaction, wanted: SearchKnowledge) -> list[Memory]:
    """Return the memories that are named and exist. If none is named, all memories."""
    if wanted.memory_ids is None and wanted.memory_tags is None:
        return tx.memories.every()
    found = [tx.memories.find(ident) for ident in dict.fromkeys(wanted.memory_ids or ())]
    tagged = tx.memories.every(wanted.memory_tags) if wanted.memory_tags else []
    return [memory for memory in found if memory is not None] + tagged


def _result(
    tx: Transaction, memories: dict[str, Memory], record: Record, score: float | None, why: str
) -> KnowledgeResult:
    return KnowledgeResult(
        make_id("me", tx.memory_id, record.guid),
        record.scope,
        memories[record.scope].name,
        record.content,
        record.source,
        tuple(load_json(record.tags, record.guid)),
        score,
        why,
        format_time(record.created_at),
        format_time(record.updated_at),
    )


def _explain_score(shares: dict[str, float]) -> str:
    return ", ".join(f"{ARMS.get(arm, arm)} {score:.2f}" for arm, score in shares.items())


def _checked_size(results: list[KnowledgeResult], context: Context) -> tuple[KnowledgeResult, ...]:
    """Return all results. Raises ResultTooLarge if they exceed the size of an answer."""
    if len(results) > 1 and sum(len(orjson.dumps(one)) for one in results) > context.result_bytes:
        raise ResultTooLarge(
            f"the result has more than {context.result_bytes} bytes, too many for an answer; "
            "set a smaller `limit`"
        )
    return tuple(results)

"""Search documents, entries of a named memory or records of a store."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field, StringConstraints

from memrelay.memory.engine.filter_sql import Conditions, compiled
from memrelay.memory.engine.memory_id import built_in_store
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.errors import EmbeddingFault, RecordNotFound, Refused
from memrelay.memory.models.named_memories.knowledge import NO_VECTOR_YET, VECTOR_SHARE, soat_score
from memrelay.memory.models.named_memories.memories import KIND as ENTRY_KIND
from memrelay.memory.models.named_memories.table import MemoryTable
from memrelay.memory.models.recipes import DOCUMENT_KIND
from memrelay.memory.models.recipes.documents import require_collection
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import kept_data, load_json
from memrelay.memory.records.filters import Filter
from memrelay.memory.records.ids import make_id, uid_of_store
from memrelay.memory.records.record import Record
from memrelay.memory.search.query import Query, match_all, plain
from memrelay.memory.search.search import MIN_ROWS_FOR_RANKER

if TYPE_CHECKING:
    from memrelay.memory.search.results import Ranked

Mode = Literal["hybrid", "semantic", "fts"]
MAX_COLLECTION_CHARACTERS = 300
MAX_QUERY_CHARACTERS = 1 << 16
MAX_TOP = 1000
DEFAULT_MIN_SCORE = 0.5
# FTS5's score that becomes 0.5, as in the text arm of ranked searches.
HALF_SCORE = 8.0
Scores = dict[int, float]
MEMORY, STORE = "memory:", "store:"
# Chunks that are ranked at first, in addition to two for each wanted document. If too many belong
# to the same documents, four times as many are ranked.
MORE_CHUNKS, GROWTH, MAX_CHUNKS = 10, 4, 10_000


@dataclass(frozen=True, slots=True)
class SearchDocuments:
    """A query over a collection."""

    collection: Annotated[
        str, StringConstraints(min_length=1, max_length=MAX_COLLECTION_CHARACTERS)
    ]
    """A collection of documents, `memory:` with the id or name of a named memory, or `store:` with
    the memory_id of a store of the pipeline."""
    query: Annotated[str, Field(min_length=1, max_length=MAX_QUERY_CHARACTERS)]
    """The text to find."""
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP)] = 5
    """The maximum number of items."""
    min_score: Annotated[float, Field(ge=0, le=1)] | None = None
    """The lowest score of an item. The default is 0.5; without vectors it is 0."""
    mode: Mode = "hybrid"
    """`hybrid`: any words, and meaning. `semantic`: meaning. `fts`: all words."""
    filter: Filter | None = None
    """Only records that pass this filter (docs/filters.md). `data` of a document has `uri`, `title`
    and `metadata`."""


@dataclass(frozen=True, slots=True)
class SearchWarning:
    """A note on the result."""

    code: str
    """`empty_query`, `only_words`, `pending_vectors` or `below_min_score`."""
    message: str


@dataclass(frozen=True, slots=True)
class DocumentHits:
    """The items found, best first."""

    items: tuple[dict[str, Any], ...]
    """As items of the step `vector_search`: with id, text, score, collection and timestamp."""
    warnings: tuple[SearchWarning, ...]


@operation("documents.search", access="search", mutates=False, store="recipes")
def search(tx: Transaction, request: SearchDocuments, context: Context) -> DocumentHits:
    """Find documents, entries of a named memory or records of a store, best first.

    Of each document, the best chunk is returned. Scores are those of knowledge.search, from 0 to 1.
    Without vectors, hits are found by their words, and the default minimum does not apply: in a
    small collection, words have low scores.

    Raises RecordNotFound: when the collection does not exist, or the store cannot be read here.
    Raises Refused: when the query has too many words, or the mode needs vectors and has none.
    Raises SearchTooLong: when the search exceeds its time limit.
    Raises VectorPending: when the vector of the query is not computed yet.
    """
    collection = _find_collection(tx, request, context)
    query = plain(request.query)
    if not query.words:
        message = "the query has no words, so nothing was searched"
        return DocumentHits((), (SearchWarning("empty_query", message),))
    warnings = list[SearchWarning]()
    with collection.store.bounded_search():
        best, rows = _best(collection, request, query, context)
        if rows.only_words:
            warnings.append(SearchWarning("only_words", rows.only_words))
        if rows.pending:
            warnings.append(SearchWarning("pending_vectors", rows.pending))
        shown = _drop_low(best, _minimum(request, rows), warnings)
        items = tuple(_item(collection, request.collection, hit) for hit in shown)
    return DocumentHits(items, tuple(warnings))


class _Collection(NamedTuple):
    """A store, the conditions on the records to search, and the view of a record."""

    store: Transaction
    conditions: Conditions
    view: Callable[[Transaction, Record], dict[str, Any]]
    # Whether only the best chunk of each thread is wanted.
    in_chunks: bool


def _find_collection(tx: Transaction, request: SearchDocuments, context: Context) -> _Collection:
    name, record_filter = request.collection, compiled(request.filter)
    if name.startswith(MEMORY):
        store = _open_memories(tx, context)
        ident = name.removeprefix(MEMORY)
        memory = store.table(MemoryTable).find(ident) or store.table(MemoryTable).named(ident)
        if memory is None:
            raise RecordNotFound(
                f"unknown collection {name!r}: no named memory has this id or name"
            )
        conditions = Conditions({"kind": ENTRY_KIND, "scope": memory.id}, given=record_filter)
        return _Collection(store, conditions, _view_entry, in_chunks=False)
    if name.startswith(STORE):
        store = _open_store(name.removeprefix(STORE), context)
        conditions = Conditions(given=record_filter, without_agents=store.records.has_agent_memory)
        return _Collection(store, conditions, _view_record, in_chunks=False)
    scope = require_collection(tx, name)
    conditions = Conditions({"kind": DOCUMENT_KIND, "scope": scope}, given=record_filter)
    return _Collection(tx, conditions, _view_chunk, in_chunks=True)


def _open_memories(tx: Transaction, context: Context) -> Transaction:
    """Return the store with the named memories. A store outside a pipeline has its own."""
    uid = uid_of_store(tx.memory_id)
    is_built_in = tx.memory_id == built_in_store(uid, "recipes")
    return _open_store(built_in_store(uid), context) if is_built_in else tx


def _open_store(memory_id: str, context: Context) -> Transaction:
    """Return another store for reads. Raises RecordNotFound: it cannot be read here."""
    try:
        store: Transaction = context.open_for_read(memory_id)
    except Refused as error:
        raise RecordNotFound(f"unknown collection: {error}") from error
    return store


def _view_entry(store: Transaction, record: Record) -> dict[str, Any]:
    return _view_record(store, record) | {"id": make_id("me", store.memory_id, record.guid)}


def _view_record(store: Transaction, record: Record) -> dict[str, Any]:
    return {
        "id": record.guid,
        "text": record.content,
        "kind": record.kind,
        "scope": record.scope,
        "tags": load_json(record.tags, record.guid),
        "data": kept_data(record, store.records.extras(record.guid)),
    }


def _view_chunk(store: Transaction, record: Record) -> dict[str, Any]:
    further = store.records.extras(record.guid)
    data = kept_data(record, further)
    return {
        "id": record.guid,
        "text": record.content.strip(),
        "uri": data.get("uri", ""),
        "title": data.get("title", ""),
        "chunk": further.seq,
        "metadata": data.get("metadata", {}),
    }


class _Rows(NamedTuple):
    """Rows with their scores, and why they may be incomplete, "" if they are not."""

    scores: Scores
    only_words: str = ""
    pending: str = ""


class _Hit(NamedTuple):
    record: Record
    score: float


def _best(
    collection: _Collection, request: SearchDocuments, query: Query, context: Context
) -> tuple[list[_Hit], _Rows]:
    """Return the best `top_k` hits: records, or the best chunks of documents."""
    limit = 2 * request.top_k + MORE_CHUNKS if collection.in_chunks else request.top_k
    while True:
        rows = _rank(collection, request, query, limit, context)
        ordered = dict(sorted(rows.scores.items(), key=lambda one: -one[1]))
        best = list(islice(_distinct(collection, ordered), request.top_k))
        is_complete = len(rows.scores) < limit or limit >= MAX_CHUNKS
        if len(best) == request.top_k or is_complete or not collection.in_chunks:
            return best, rows
        limit *= GROWTH


def _rank(
    collection: _Collection, request: SearchDocuments, query: Query, limit: int, context: Context
) -> _Rows:
    store, conditions = collection.store, collection.conditions
    if request.mode == "fts":
        return _Rows(_match_all(store, query, conditions, limit))

    def rank(*, floor: bool) -> "Ranked":
        return store.ranker.search(
            query,
            conditions,
            limit,
            context.language,
            question=request.query,
            semantic=request.mode == "semantic",
            conversations=False,
            floor=floor,
            vector_share=VECTOR_SHARE,
        )

    try:
        ranked = rank(floor=False)
    except EmbeddingFault as fault:
        raise Refused(str(fault)) from fault
    if ranked.missing_retriever:
        return _Rows(rank(floor=True).scores_by_row(), only_words=ranked.missing_retriever)
    pending = NO_VECTOR_YET * store.ranker.has_missing_vectors(ranked)
    return _Rows(ranked.scores_by_row(), pending=pending)


def _match_all(store: Transaction, query: Query, conditions: Conditions, limit: int) -> Scores:
    """Return the rows with all words of the query, with their scores from 0 to 1."""
    best = None
    if store.records.last_row >= MIN_ROWS_FOR_RANKER:
        best = store.ranker.search_by_relevance(query, conditions, limit)
    scores = dict[int, float]()
    for row, record in store.records.placed(match_all(query), "", conditions, limit, best=best):
        score = max(record.score, 0.0)
        scores[row] = score / (score + HALF_SCORE)
    return scores


def _distinct(collection: _Collection, scores: Scores) -> Iterator[_Hit]:
    """Yield the records of the rows; of a document only its first."""
    threads = set[str | None]()
    for record in collection.store.records.at_rows(scores):
        if collection.in_chunks:
            thread = collection.store.records.extras(record.guid).thread
            if thread in threads:
                continue
            threads.add(thread)
        yield _Hit(record, soat_score(record.score))


def _drop_low(hits: list[_Hit], least: float, warnings: list[SearchWarning]) -> list[_Hit]:
    """Return the hits with at least this score, and warn about the others."""
    low = [hit.score for hit in hits if hit.score < least]
    if low:
        some = "1 hit lies" if len(low) == 1 else f"{len(low)} hits lie"
        message = (
            f"{some} below minScore {least:g}, and the best score is {hits[0].score:g}; "
            "set a lower minScore to get them"
        )
        warnings.append(SearchWarning("below_min_score", message))
    return [hit for hit in hits if hit.score >= least]


def _minimum(request: SearchDocuments, rows: _Rows) -> float:
    if request.min_score is not None:
        return request.min_score
    return 0.0 if rows.only_words or request.mode == "fts" else DEFAULT_MIN_SCORE


def _item(collection: _Collection, name: str, hit: _Hit) -> dict[str, Any]:
    shown = collection.view(collection.store, hit.record)
    changed = format_time(hit.record.updated_at)
    return shown | {"score": hit.score, "collection": name, "timestamp": changed}

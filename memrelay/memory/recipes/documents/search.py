"""Search a collection: documents, a named memory, or another store of the pipeline."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from memrelay.memory.errors import EmbeddingFault, RecordNotFound, Refused
from memrelay.memory.memory_id import home_of
from memrelay.memory.operation import Context
from memrelay.memory.operations.knowledge_search import NO_VECTOR_YET, VECTOR_SHARE, soat_score
from memrelay.memory.operations.records_search import MIN_ROWS_FOR_RANKER
from memrelay.memory.recipes.documents.documents import known_collection
from memrelay.memory.records.data import kept_data, load_json
from memrelay.memory.records.ids import make_id, uid_of_store
from memrelay.memory.records.kinds import DOCUMENT_KIND
from memrelay.memory.records.memory_view import KIND as ENTRY_KIND
from memrelay.memory.records.record import Record
from memrelay.memory.search.query import Query, match_all, plain
from memrelay.memory.sqlite.filters import Conditions, compiled
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.timestamps import format_time

if TYPE_CHECKING:
    from memrelay.memory.search.results import Ranked

Mode = Literal["hybrid", "semantic", "fts"]
MEMORY, STORE = "memory:", "store:"
MAX_COLLECTION_CHARACTERS = 300
MAX_QUERY_CHARACTERS = 1 << 16
MAX_TOP = 1000
DEFAULT_MIN_SCORE = 0.5
# FTS5's score that becomes 0.5, as in the text arm of ranked searches.
HALF_SCORE = 8.0
# Chunks that are ranked at first, in addition to two for each wanted document. If too many belong
# to the same documents, four times as many are ranked.
MORE_CHUNKS, GROWTH, MAX_CHUNKS = 10, 4, 10_000
Scores = dict[int, float]


@dataclass(frozen=True, slots=True)
class CollectionQuery:
    """A query over a collection: `name`, `memory:<id or name>` or `store:<memory_id>`."""

    collection: str
    query: str
    top_k: int
    # None for the default, which applies only if meaning is compared.
    min_score: float | None
    mode: Mode
    filter: dict[str, Any] | None


class Note(NamedTuple):
    """A note on a result. `code` is one of the names in docs/recipes.md."""

    code: str
    message: str


@dataclass(slots=True)
class CollectionHits:
    """The hits, best first, as items of a recipe, and what to know about them."""

    items: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[Note] = field(default_factory=list)


class _Collection(NamedTuple):
    """A store, the conditions on the records to search, and the view of a record."""

    store: Transaction
    conditions: Conditions
    view: Callable[[Transaction, Record], dict[str, Any]]
    # Whether only the best chunk of each thread is wanted.
    in_chunks: bool


class _Rows(NamedTuple):
    """Rows with their scores, and why they may be incomplete, "" if they are not."""

    scores: Scores
    only_words: str = ""
    pending: str = ""


class _Hit(NamedTuple):
    record: Record
    score: float


def search_collection(tx: Transaction, wanted: CollectionQuery, context: Context) -> CollectionHits:
    """Return the best hits of a collection with at least the minimum score.

    Scores are those of knowledge.search, from 0 to 1. Without vectors, hits are found by their
    words, and the default minimum does not apply: in a small collection, words have low scores.

    Raises RecordNotFound: when the collection does not exist, or the store cannot be read here.
    Raises Refused: when the query has too many words, or mode `semantic` has no vectors.
    Raises SearchTooLong: when the search exceeds its time limit.
    Raises VectorPending: when the vector of the query is not computed yet.
    """
    collection = _find_collection(tx, wanted, context)
    hits = CollectionHits()
    query = plain(wanted.query)
    if not query.words:
        message = "the query has no words, so nothing was searched"
        hits.warnings.append(Note("empty_query", message))
        return hits
    with collection.store.bounded_search():
        best, rows = _best(collection, wanted, query, context)
        for code, note in (("only_words", rows.only_words), ("pending_vectors", rows.pending)):
            if note:
                hits.warnings.append(Note(code, note))
        kept = _drop_low(best, _minimum(wanted, rows), hits.warnings)
        hits.items += [_item(collection, wanted.collection, hit) for hit in kept]
    return hits


def _find_collection(tx: Transaction, wanted: CollectionQuery, context: Context) -> _Collection:
    name, given = wanted.collection, compiled(wanted.filter)
    if name.startswith(MEMORY):
        store = _open_memories(tx, context)
        ident = name.removeprefix(MEMORY)
        memory = store.memories.find(ident) or store.memories.named(ident)
        if memory is None:
            raise RecordNotFound(
                f"unknown collection {name!r}: no named memory has this id or name"
            )
        conditions = Conditions({"kind": ENTRY_KIND, "scope": memory.id}, given=given)
        return _Collection(store, conditions, _view_entry, in_chunks=False)
    if name.startswith(STORE):
        store = _open_store(name.removeprefix(STORE), context)
        conditions = Conditions(given=given, without_agents=store.records.has_agent_memory)
        return _Collection(store, conditions, _view_record, in_chunks=False)
    scope = known_collection(tx, name)
    conditions = Conditions({"kind": DOCUMENT_KIND, "scope": scope}, given=given)
    return _Collection(tx, conditions, _view_chunk, in_chunks=True)


def _open_memories(tx: Transaction, context: Context) -> Transaction:
    """Return the store with the named memories. A store outside a pipeline has its own."""
    uid = uid_of_store(tx.memory_id)
    is_home = tx.memory_id == home_of(uid, "recipes")
    return _open_store(home_of(uid), context) if is_home else tx


def _open_store(memory_id: str, context: Context) -> Transaction:
    """Return another store for reads. Raises RecordNotFound: it cannot be read here."""
    try:
        store: Transaction = context.beside(memory_id)
    except Refused as error:
        raise RecordNotFound(f"unknown collection: {error}") from error
    return store


def _best(
    collection: _Collection, wanted: CollectionQuery, query: Query, context: Context
) -> tuple[list[_Hit], _Rows]:
    """Return the best `top_k` hits: records, or the best chunks of documents."""
    limit = 2 * wanted.top_k + MORE_CHUNKS if collection.in_chunks else wanted.top_k
    while True:
        rows = _rank(collection, wanted, query, limit, context)
        ordered = dict(sorted(rows.scores.items(), key=lambda one: -one[1]))
        best = list(islice(_distinct(collection, ordered), wanted.top_k))
        is_complete = len(rows.scores) < limit or limit >= MAX_CHUNKS
        if len(best) == wanted.top_k or is_complete or not collection.in_chunks:
            return best, rows
        limit *= GROWTH


def _distinct(collection: _Collection, scores: Scores) -> Iterator[_Hit]:
    """Yield the records of the rows; of a document only its first."""
    threads = set[str | None]()
    for record in collection.store.records.at_rows(scores):
        if collection.in_chunks:
            thread = collection.store.records.further(record.guid).thread
            if thread in threads:
                continue
            threads.add(thread)
        yield _Hit(record, soat_score(record.score))


def _rank(
    collection: _Collection, wanted: CollectionQuery, query: Query, limit: int, context: Context
) -> _Rows:
    store, conditions = collection.store, collection.conditions
    if wanted.mode == "fts":
        return _Rows(_match_all(store, query, conditions, limit))

    def rank(*, floor: bool) -> "Ranked":
        return store.ranker.search(
            query,
            conditions,
            limit,
            context.language,
            question=wanted.query,
            semantic=wanted.mode == "semantic",
            conversations=False,
            floor=floor,
            vector_share=VECTOR_SHARE,
        )

    try:
        ranked = rank(floor=False)
    except EmbeddingFault as fault:
        raise Refused(str(fault)) from fault
    if ranked.missing_arm:
        return _Rows(rank(floor=True).scores_by_row(), only_words=ranked.missing_arm)
    pending = NO_VECTOR_YET * store.ranker.has_missing_vectors(ranked)
    return _Rows(ranked.scores_by_row(), pending=pending)


def _match_all(store: Transaction, query: Query, conditions: Conditions, limit: int) -> Scores:
    """Return the rows with all words of the query, with their scores from 0 to 1."""
    best = None
    if store.records.last_row >= MIN_ROWS_FOR_RANKER:
        best = store.ranker.search_by_relevance(query, conditions, limit)
    found = store.records.placed(match_all(query), "", conditions, limit, best=best)
    return {
        row: max(record.score, 0.0) / (max(record.score, 0.0) + HALF_SCORE) for row, record in found
    }


def _minimum(wanted: CollectionQuery, rows: _Rows) -> float:
    if wanted.min_score is not None:
        return wanted.min_score
    return 0.0 if rows.only_words or wanted.mode == "fts" else DEFAULT_MIN_SCORE


def _drop_low(hits: list[_Hit], least: float, warnings: list[Note]) -> list[_Hit]:
    """Return the hits with at least this score, and warn about the others."""
    low = [hit.score for hit in hits if hit.score < least]
    if low:
        some = "1 hit lies" if len(low) == 1 else f"{len(low)} hits lie"
        message = (
            f"{some} below minScore {least:g}, and the best score is {hits[0].score:g}; "
            "set a lower minScore to get them"
        )
        warnings.append(Note("below_min_score", message))
    return [hit for hit in hits if hit.score >= least]


def _item(collection: _Collection, name: str, hit: _Hit) -> dict[str, Any]:
    shown = collection.view(collection.store, hit.record)
    changed = format_time(hit.record.updated_at)
    return shown | {"score": hit.score, "collection": name, "timestamp": changed}


def _view_chunk(store: Transaction, record: Record) -> dict[str, Any]:
    further = store.records.further(record.guid)
    data = kept_data(record, further)
    return {
        "id": record.guid,
        "text": record.content.strip(),
        "uri": data.get("uri", ""),
        "title": data.get("title", ""),
        "chunk": further.seq,
        "metadata": data.get("metadata", {}),
    }


def _view_entry(store: Transaction, record: Record) -> dict[str, Any]:
    return _view_record(store, record) | {"id": make_id("me", store.memory_id, record.guid)}


def _view_record(store: Transaction, record: Record) -> dict[str, Any]:
    return {
        "id": record.guid,
        "text": record.content,
        "kind": record.kind,
        "scope": record.scope,
        "tags": load_json(record.tags, record.guid),
        "data": kept_data(record, store.records.further(record.guid)),
    }

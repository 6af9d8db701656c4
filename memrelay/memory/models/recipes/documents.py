"""Documents: texts in collections, stored in chunks that are short enough for one vector."""

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import orjson
from pydantic import AfterValidator, Field, StringConstraints

from memrelay.memory.engine.filter_sql import Conditions, compiled
from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.memory_id import built_in_store
from memrelay.memory.engine.store import Store, Transaction
from memrelay.memory.engine.time_zones import find_zone
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import (
    EmbeddingFault,
    RecordNotFound,
    Refused,
    ResultTooLarge,
    VersionConflict,
)
from memrelay.memory.models.named_memories.knowledge import NO_VECTOR_YET, VECTOR_SHARE, soat_score
from memrelay.memory.models.named_memories.memories import KIND as ENTRY_KIND
from memrelay.memory.models.named_memories.table import MemoryTable
from memrelay.memory.models.recipes import DOCUMENT_KIND
from memrelay.memory.models.recipes.table import RecipeTables
from memrelay.memory.operations import Context, Receipt, operation
from memrelay.memory.records.data import checked, kept_data, load_json
from memrelay.memory.records.filters import Filter
from memrelay.memory.records.ids import make_id, uid_of_store
from memrelay.memory.records.paging import MOST
from memrelay.memory.records.record import Record
from memrelay.memory.records.view import Versions, version_of
from memrelay.memory.search.query import Query, match_all, plain
from memrelay.memory.search.search import MIN_ROWS_FOR_RANKER

MAX_CHARACTERS = 1200
# A cut at a paragraph or sentence leaves a chunk of at least this length.
MIN_CHARACTERS = 400
# Where a chunk may end, the best first.
_ENDS = (
    re.compile(r"\n[ \t\r]*\n\s*"),
    re.compile(r"[.!?\u2026]['\")\]]*\s+|[\u3002\uff01\uff1f]\s*"),
    re.compile(r"\n"),
    re.compile(r"\s+"),
)
# Speakers influence the search. All chunks have this one, which has no effect.
SOURCE = "document"
MAX_TEXT_CHARACTERS = 1 << 18
# Each chunk repeats them.
MAX_METADATA_BYTES = 4096
MAX_TITLE_CHARACTERS = 256
DIGEST_BYTES = 12
CollectionName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Uri = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=r"\S")]
Text = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_TEXT_CHARACTERS, pattern=r"\S")
]
Title = Annotated[str, Field(max_length=MAX_TITLE_CHARACTERS)]
SCOPE = "collection/"


@dataclass(frozen=True, slots=True)
class DocumentSummary:
    """A document without its text."""

    collection: str
    uri: str
    title: str
    metadata: dict[str, Any]
    chunks: int
    """The number of chunks of the text."""
    created_at: Moment
    updated_at: Moment
    version: str
    """Changes with every edit; an edit can require it."""


@dataclass(frozen=True, slots=True)
class DocumentView(DocumentSummary):
    """A document."""

    text: str


def _check_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    size = len(orjson.dumps(checked(metadata)))
    if size > MAX_METADATA_BYTES:
        raise ValueError(
            f"`metadata` has {size:,} bytes in JSON, and at most {MAX_METADATA_BYTES:,} are "
            "allowed, because each chunk repeats them; move long values to the text"
        )
    return metadata


Metadata = Annotated[dict[str, Any], AfterValidator(_check_metadata)]


@dataclass(frozen=True, slots=True)
class PutDocument:
    """A document to store."""

    collection: CollectionName
    """The collection. The first document creates it."""
    uri: Uri
    """The address or name of the document, unique in the collection."""
    text: Text
    """The text. It is stored in chunks of at most 1,200 characters."""
    title: Title = ""
    """The title."""
    metadata: Metadata = field(default_factory=dict)
    """Structured data, at most 4,096 bytes in JSON."""
    if_version: Versions = ()
    """Store only if the document has one of these versions."""


@dataclass(frozen=True, slots=True)
class DocumentWritten:
    """The document after the call."""

    document: DocumentSummary
    created: bool
    """Whether it is new."""


@operation("documents.put", access="write", mutates=True, store="recipes", needs_vectors=True)
def put(tx: Transaction, new: PutDocument, context: Context) -> DocumentWritten:
    """Store a document, in place of the one with its uri.

    Chunks with an equal text keep their vectors. A document that is equal does not change.

    Raises VersionConflict: when the document has another version.
    """
    table = tx.table(RecipeTables).documents
    before = table.chunks(_make_thread(new.collection, new.uri))
    check_document_version(before, new.if_version)
    # A chunk is missing if it quoted an erased text.
    is_complete = [chunk.state.seq for chunk in before] == list(range(len(before)))
    reused = before if is_complete else []
    for chunk in before[len(reused) :]:
        _remove(tx, chunk)
    after = list[State]()
    for seq, (content, data) in enumerate(_make_contents(new)):
        if seq >= len(reused):
            after.append(table.insert(_make_chunk(new, seq, content, data, context)))
            continue
        state = reused[seq].state
        changed = state._replace(content=content, data=data)
        after.append(state if changed == state else table.change(reused[seq], changed))
    for chunk in reused[len(after) :]:
        _remove(tx, chunk)
    return DocumentWritten(summarize(after[0], len(after)), created=not before)


def _remove(tx: Transaction, chunk: StoredRecord) -> None:
    """Remove a surplus chunk with its history, so that no restore brings it back."""
    tx.records.remove(chunk)
    tx.records.versions.forget(chunk.guid)


def _make_contents(new: PutDocument) -> list[tuple[str, str]]:
    """Return the (text, data) of each chunk.

    The data of the first chunk has a digest, so that each edit changes this chunk and its version.
    """
    pieces = list(split_text(new.text))
    common = {"uri": new.uri, "title": new.title, "metadata": new.metadata}
    digest = blake2b(new.text.encode(), digest_size=DIGEST_BYTES).hexdigest()
    first = common | {"chunks": len(pieces), "digest": digest}
    return [
        (piece, orjson.dumps(common if number else first).decode())
        for number, piece in enumerate(pieces)
    ]


def _make_chunk(new: PutDocument, seq: int, content: str, data: str, context: Context) -> State:
    return new_state(context.new_guid(), DOCUMENT_KIND, context.now_ms, SOURCE)._replace(
        scope=collection_scope(new.collection),
        key=None if seq else new.uri,
        data=data,
        thread=_make_thread(new.collection, new.uri),
        seq=seq,
        content=content,
    )


@dataclass(frozen=True, slots=True)
class GetDocument:
    """The document to read."""

    collection: CollectionName
    """The collection."""
    uri: Uri
    """The uri of the document."""


@operation("documents.get", access="read", mutates=False, store="recipes")
def get(tx: Transaction, query: GetDocument, context: Context) -> DocumentView:
    """Return a document with its text.

    Raises RecordNotFound: when the collection has no such document.
    Raises ResultTooLarge: when the document does not fit into an answer.
    """
    chunks = find_chunks(tx, query.collection, query.uri)
    summary = asdict(summarize(chunks[0].state, len(chunks)))
    document = DocumentView(**summary, text="".join(chunk.content for chunk in chunks))
    size = len(orjson.dumps(document))
    if size > context.result_bytes:
        raise ResultTooLarge(
            f"the document has {size:,} bytes, and an answer has at most "
            f"{context.result_bytes:,}; split the document, or search it"
        )
    return document


@dataclass(frozen=True, slots=True)
class ListDocuments:
    """The collection, and the page."""

    collection: CollectionName
    """The collection."""
    limit: Annotated[int, Field(ge=1, le=MOST)] = 100
    """The maximum number of documents."""
    cursor: Annotated[str, Field(max_length=512)] = ""
    """The `next_cursor` of the previous page."""


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """A page of documents without their texts, in the order of their uris."""

    items: tuple[DocumentSummary, ...]
    total: int
    """The number of documents on all pages."""
    next_cursor: str | None
    """The cursor of the next page; null on the last page."""


@operation("documents.list", access="read", mutates=False, store="recipes")
def list_documents(tx: Transaction, query: ListDocuments, context: Context) -> DocumentPage:
    """List the documents of a collection by uri, in pages. Writes of others shift no page.

    Raises RecordNotFound: when the collection does not exist.
    """
    scope = require_collection(tx, query.collection)
    table = tx.table(RecipeTables).documents
    states = [stored.state for stored in table.page(scope, query.cursor, query.limit + 1)]
    page = states[: query.limit]
    return DocumentPage(
        tuple(
            summarize(first, int(kept_data(first.record, first.extras).get("chunks", 1)))
            for first in page
        ),
        table.count(scope),
        page[-1].key if len(states) > query.limit else None,
    )


@dataclass(frozen=True, slots=True)
class DeleteDocument:
    """The document to delete."""

    collection: CollectionName
    """The collection. It ends with its last document."""
    uri: Uri
    """The uri of the document."""
    if_version: Versions = ()
    """Delete only if the document has one of these versions."""


@operation("documents.delete", access="delete", mutates=True, store="recipes")
def delete(tx: Transaction, target: DeleteDocument, context: Context) -> None:
    """Delete a document with all chunks of its text.

    Raises RecordNotFound: when the collection has no such document.
    Raises VersionConflict: when the document has another version.
    """
    chunks = find_chunks(tx, target.collection, target.uri)
    check_document_version(chunks, target.if_version)
    for chunk in chunks:
        tx.records.delete(chunk)


@dataclass(frozen=True, slots=True)
class ListCollections:
    """No input."""


@dataclass(frozen=True, slots=True)
class CollectionView:
    """A collection."""

    name: str
    documents: int
    """The number of documents."""
    chunks: int
    """The number of chunks of their texts."""


@dataclass(frozen=True, slots=True)
class Collections:
    """All collections, by name."""

    items: tuple[CollectionView, ...]


@operation("documents.collections", access="read", mutates=False, store="recipes")
def collections(tx: Transaction, query: ListCollections, context: Context) -> Collections:
    """List the collections of documents by name. Each has at least one document."""
    views = [
        CollectionView(scope.removeprefix(SCOPE), documents, chunks)
        for scope, documents, chunks in tx.table(RecipeTables).documents.count_by_scope()
    ]
    return Collections(tuple(views))


def find_chunks(tx: Transaction, collection: str, uri: str) -> list[StoredRecord]:
    """Return the chunks of a document in order. Raises RecordNotFound."""
    chunks = tx.table(RecipeTables).documents.chunks(_make_thread(collection, uri))
    if not chunks:
        raise RecordNotFound(
            f"collection {collection!r} has no document with the uri {uri!r}; "
            "see documents.list for its documents"
        )
    return chunks


def _make_thread(collection: str, uri: str) -> str:
    return f"{collection_scope(collection)}/{uri}"


def check_document_version(chunks: list[StoredRecord], allowed: tuple[str, ...]) -> None:
    """Raise VersionConflict if a document has none of the allowed versions; () allows all."""
    if not allowed:
        return
    version = _version(chunks[0].state) if chunks else ""
    if version not in allowed:
        state = f"has version {version}, not the expected one" if chunks else "does not exist"
        raise VersionConflict(f"the document {state}; read it again and retry with its version")


def summarize(first: State, chunks: int) -> DocumentSummary:
    """Return the view of a document with that first chunk."""
    data = kept_data(first.record, first.extras)
    return DocumentSummary(
        first.scope.removeprefix(SCOPE),
        data.get("uri", ""),
        data.get("title", ""),
        data.get("metadata", {}),
        chunks,
        format_time(first.created_at),
        format_time(first.updated_at),
        _version(first),
    )


def _version(first: State) -> str:
    return version_of(first.record, first.extras)


def require_collection(tx: Transaction, collection: str) -> str:
    """Return the scope of a collection. Raises RecordNotFound: it has no document."""
    scope = collection_scope(collection)
    if not tx.table(RecipeTables).documents.has_scope(scope):
        raise RecordNotFound(
            f"unknown collection {collection[:200]!r}; documents.put creates it with its first "
            "document, and documents.collections lists all"
        )
    return scope


def collection_scope(collection: str) -> str:
    return f"{SCOPE}{collection}"


def split_text(text: str) -> Iterator[str]:
    """Yield the chunks of a text. Joined, they are the text.

    A chunk has at most `MAX_CHARACTERS`. It ends at a paragraph, or else at a sentence, a line or a
    word.
    """
    start = 0
    while len(text) - start > MAX_CHARACTERS:
        end = _find_end(text, start)
        yield text[start:end]
        start = end
    yield text[start:]


def _find_end(text: str, start: int) -> int:
    """Return where the chunk that begins at `start` ends."""
    last = start + MAX_CHARACTERS
    for pattern in _ENDS:
        ends = [match.end() for match in pattern.finditer(text, start + MIN_CHARACTERS, last)]
        if ends:
            return ends[-1]
    return last


def has_documents(store: Store) -> bool:
    """Return whether a store has documents, which are searched by meaning."""
    return store.table(RecipeTables).documents.any()


if TYPE_CHECKING:
    from memrelay.memory.search.results import Ranked

MAX_QUERY_CHARACTERS = 1 << 16
MAX_COLLECTION_CHARACTERS = 300
MAX_TOP = 1000
Mode = Literal["hybrid", "semantic", "fts"]
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
    receipt: Receipt = False
    """Whether to leave a receipt (docs/receipts.md), or the id of the answer that will use it."""


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


@operation("documents.search", access="search", mutates=False, store="recipes", takes_as_of=True)
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
        least = request.min_score
        if least is None:
            least = 0.0 if rows.only_words or request.mode == "fts" else DEFAULT_MIN_SCORE
        shown = _drop_low(best, least, warnings)
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
        # A store outside a pipeline has its own named memories.
        store, uid = tx, uid_of_store(tx.memory_id)
        if tx.memory_id == built_in_store(uid, "recipes"):
            store = _open_store(built_in_store(uid), context)
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
            zone=find_zone(context.timezone),
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


def _item(collection: _Collection, name: str, hit: _Hit) -> dict[str, Any]:
    shown = collection.view(collection.store, hit.record)
    changed = format_time(hit.record.updated_at)
    return shown | {"score": hit.score, "collection": name, "timestamp": changed}

"""Documents: texts in collections, stored in chunks that are short enough for one vector."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated, Any

import orjson
from pydantic import AfterValidator, Field, StringConstraints

from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.store import Store, Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import RecordNotFound, ResultTooLarge, VersionConflict
from memrelay.memory.models.recipes import DOCUMENT_KIND
from memrelay.memory.models.recipes.table import RecipeTables
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import checked, kept_data
from memrelay.memory.records.paging import MOST
from memrelay.memory.records.view import Versions, version_of

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
    reused = before if _is_complete(before) else []
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


def _is_complete(chunks: list[StoredRecord]) -> bool:
    """Return whether no chunk is missing. One that quoted an erased text is."""
    return [chunk.state.seq for chunk in chunks] == list(range(len(chunks)))


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
    document = view_document(find_chunks(tx, query.collection, query.uri))
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
        tuple(summarize(first, _chunk_count(first)) for first in page),
        table.count(scope),
        page[-1].key if len(states) > query.limit else None,
    )


def _chunk_count(first: State) -> int:
    return int(kept_data(first.record, first.extras).get("chunks", 1))


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


def view_document(chunks: list[StoredRecord]) -> DocumentView:
    """Return the view of a document with its text."""
    one = summarize(chunks[0].state, len(chunks))
    return DocumentView(
        one.collection,
        one.uri,
        one.title,
        one.metadata,
        one.chunks,
        one.created_at,
        one.updated_at,
        one.version,
        "".join(chunk.content for chunk in chunks),
    )


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
    """Return the scope of the chunks of a collection."""
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

"""Documents of collections: their input, their views, and how they are stored.

A document is a thread of the home `recipes`, and its turns are the chunks of its text. The first
chunk has the uri as its key, so a document has at most one first chunk. The data of each chunk
has the uri, the title and the metadata, for filters and results.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple

import orjson
from pydantic import AfterValidator, Field, StringConstraints

from memrelay.memory.agents.keyed_table import new_state
from memrelay.memory.errors import RecordNotFound, VersionConflict
from memrelay.memory.operation import Context
from memrelay.memory.recipes.documents.chunks import split_text
from memrelay.memory.records.data import checked, kept_data
from memrelay.memory.records.kinds import DOCUMENT_KIND
from memrelay.memory.records.view import version_of
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.sqlite.versions import State, StoredRecord
from memrelay.memory.timestamps import Moment, format_time

# Speakers influence the search. All chunks have this one, which has no effect.
SOURCE = "document"
SCOPE = "collection/"
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


def _check_metadata(given: dict[str, Any]) -> dict[str, Any]:
    size = len(orjson.dumps(checked(given)))
    if size > MAX_METADATA_BYTES:
        raise ValueError(
            f"`metadata` has {size:,} bytes in JSON, and at most {MAX_METADATA_BYTES:,} are "
            "allowed, because each chunk repeats them; move long values to the text"
        )
    return given


Metadata = Annotated[dict[str, Any], AfterValidator(_check_metadata)]


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


class NewDocument(NamedTuple):
    """A document to store."""

    collection: str
    uri: str
    text: str
    title: str
    metadata: dict[str, Any]


def collection_scope(collection: str) -> str:
    """Return the scope of the chunks of a collection."""
    return f"{SCOPE}{collection}"


def find_chunks(tx: Transaction, collection: str, uri: str) -> list[StoredRecord]:
    """Return the chunks of a document in order. Raises RecordNotFound."""
    found = tx.recipes.documents.chunks(_thread(collection, uri))
    if not found:
        raise RecordNotFound(
            f"collection {collection!r} has no document with the uri {uri!r}; "
            "see documents.list for its documents"
        )
    return found


def store_document(
    tx: Transaction, new: NewDocument, if_version: tuple[str, ...], context: Context
) -> tuple[DocumentSummary, bool]:
    """Store a document in place of the one with its uri. Return it and whether it is new.

    Chunks with an equal text keep their vectors. A document that is equal does not change.
    Raises VersionConflict: when the document has none of the expected versions.
    """
    table = tx.recipes.documents
    before = table.chunks(_thread(new.collection, new.uri))
    check_document_version(before, if_version)
    kept = before if _is_complete(before) else []
    for place in before[len(kept) :]:
        _remove(tx, place)
    after: list[State] = []
    for seq, (content, data) in enumerate(_contents(new)):
        if seq >= len(kept):
            after.append(table.insert(_new_chunk(new, seq, content, data, context)))
            continue
        state = kept[seq].whole
        wanted = state._replace(content=content, data=data)
        after.append(state if wanted == state else table.change(kept[seq], wanted))
    for place in kept[len(after) :]:
        _remove(tx, place)
    return summarize(after[0], len(after)), not before


def check_document_version(chunks: list[StoredRecord], allowed: tuple[str, ...]) -> None:
    """Raise VersionConflict if a document has none of the allowed versions; () allows all."""
    if not allowed:
        return
    version = _version(chunks[0].whole) if chunks else ""
    if version not in allowed:
        state = f"has version {version}, not the expected one" if chunks else "does not exist"
        raise VersionConflict(f"the document {state}; read it again and retry with its version")


def summarize(first: State, chunks: int) -> DocumentSummary:
    """Return the view of a document with that first chunk."""
    data = kept_data(first.record, first.further)
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


def view_document(chunks: list[StoredRecord]) -> DocumentView:
    """Return the view of a document with its text."""
    one = summarize(chunks[0].whole, len(chunks))
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


def known_collection(tx: Transaction, collection: str) -> str:
    """Return the scope of a collection. Raises RecordNotFound: it has no document."""
    scope = collection_scope(collection)
    if not tx.recipes.documents.has_scope(scope):
        raise RecordNotFound(
            f"unknown collection {collection[:200]!r}; documents.put creates it with its first "
            "document, and documents.collections lists all"
        )
    return scope


def _thread(collection: str, uri: str) -> str:
    return f"{collection_scope(collection)}/{uri}"


def _version(first: State) -> str:
    return version_of(first.record, first.further)


def _is_complete(chunks: list[StoredRecord]) -> bool:
    """Return whether no chunk is missing. One that quoted an erased text is."""
    return [chunk.whole.seq for chunk in chunks] == list(range(len(chunks)))


def _contents(new: NewDocument) -> list[tuple[str, str]]:
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


def _new_chunk(new: NewDocument, seq: int, content: str, data: str, context: Context) -> State:
    return new_state(context.new_guid(), DOCUMENT_KIND, context.now_ms, SOURCE)._replace(
        scope=collection_scope(new.collection),
        key=None if seq else new.uri,
        data=data,
        thread=_thread(new.collection, new.uri),
        seq=seq,
        content=content,
    )


def _remove(tx: Transaction, chunk: StoredRecord) -> None:
    """Remove a surplus chunk with its history, so that no restore brings it back."""
    tx.records.remove(chunk)
    tx.records.versions.forget(chunk.guid)

"""documents.put: stores a document of a collection under its uri."""

from dataclasses import dataclass, field

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.documents.documents import (
    CollectionName,
    DocumentSummary,
    Metadata,
    NewDocument,
    Text,
    Title,
    Uri,
    store_document,
)
from memrelay.memory.records.view import Versions
from memrelay.memory.sqlite.store import Transaction

NAME = "documents.put"


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


@operation(NAME, access="write", mutates=True, home="recipes")
def put(tx: Transaction, given: PutDocument, context: Context) -> DocumentWritten:
    """Store a document, in place of the one with its uri.

    Raises VersionConflict: when the document has another version.
    """
    new = NewDocument(given.collection, given.uri, given.text, given.title, given.metadata)
    return DocumentWritten(*store_document(tx, new, given.if_version, context))

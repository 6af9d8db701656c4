"""documents.get: reads a document with its text."""

from dataclasses import dataclass

import orjson

from memrelay.memory.errors import ResultTooLarge
from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.documents.documents import (
    CollectionName,
    DocumentView,
    Uri,
    find_chunks,
    view_document,
)
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class GetDocument:
    """The document to read."""

    collection: CollectionName
    """The collection."""
    uri: Uri
    """The uri of the document."""


@operation("documents.get", access="read", mutates=False, home="recipes")
def get(tx: Transaction, wanted: GetDocument, context: Context) -> DocumentView:
    """Return a document with its text.

    Raises RecordNotFound: when the collection has no such document.
    Raises ResultTooLarge: when the document does not fit into an answer.
    """
    found = view_document(find_chunks(tx, wanted.collection, wanted.uri))
    size = len(orjson.dumps(found))
    if size > context.result_bytes:
        raise ResultTooLarge(
            f"the document has {size:,} bytes, and an answer has at most "
            f"{context.result_bytes:,}; split the document, or search it"
        )
    return found

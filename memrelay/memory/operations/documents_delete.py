"""documents.delete: deletes a document of a collection."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.documents.documents import (
    CollectionName,
    Uri,
    check_document_version,
    find_chunks,
)
from memrelay.memory.records.view import Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeleteDocument:
    """The document to delete."""

    collection: CollectionName
    """The collection. It ends with its last document."""
    uri: Uri
    """The uri of the document."""
    if_version: Versions = ()
    """Delete only if the document has one of these versions."""


@operation("documents.delete", access="delete", mutates=True, home="recipes")
def delete(tx: Transaction, target: DeleteDocument, context: Context) -> None:
    """Delete a document with all chunks of its text.

    Raises RecordNotFound: when the collection has no such document.
    Raises VersionConflict: when the document has another version.
    """
    chunks = find_chunks(tx, target.collection, target.uri)
    check_document_version(chunks, target.if_version)
    for chunk in chunks:
        tx.records.delete(chunk)

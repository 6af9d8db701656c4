"""documents.list: lists the documents of a collection in pages, by uri."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_list import MOST
from memrelay.memory.recipes.documents.documents import (
    CollectionName,
    DocumentSummary,
    known_collection,
    summarize,
)
from memrelay.memory.records.data import kept_data
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.sqlite.versions import State


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


@operation("documents.list", access="read", mutates=False, home="recipes")
def list_documents(tx: Transaction, wanted: ListDocuments, context: Context) -> DocumentPage:
    """List the documents of a collection by uri, in pages. Writes of others shift no page.

    Raises RecordNotFound: when the collection does not exist.
    """
    scope = known_collection(tx, wanted.collection)
    table = tx.recipes.documents
    found = [place.whole for place in table.page(scope, wanted.cursor, wanted.limit + 1)]
    shown = found[: wanted.limit]
    return DocumentPage(
        tuple(summarize(first, _chunk_count(first)) for first in shown),
        table.count(scope),
        shown[-1].key if len(found) > wanted.limit else None,
    )


def _chunk_count(first: State) -> int:
    return int(kept_data(first.record, first.further).get("chunks", 1))

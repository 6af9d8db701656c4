"""documents.search: finds documents, entries or records by meaning and words."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from memrelay.memory.filter.input import Filter
from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.documents.search import (
    MAX_COLLECTION_CHARACTERS,
    MAX_QUERY_CHARACTERS,
    MAX_TOP,
    CollectionQuery,
    Mode,
    search_collection,
)
from memrelay.memory.sqlite.store import Transaction


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


@operation("documents.search", access="search", mutates=False, home="recipes")
def search(tx: Transaction, wanted: SearchDocuments, context: Context) -> DocumentHits:
    """Find documents, entries of a named memory or records of a store, best first.

    Of each document, the best chunk is returned.

    Raises RecordNotFound: when the collection does not exist.
    Raises Refused: when the query has too many words, or the mode needs vectors and has none.
    Raises SearchTooLong: when the search exceeds its time limit.
    Raises VectorPending: when the vector of the query is not computed yet.
    """
    query = CollectionQuery(
        wanted.collection,
        wanted.query,
        wanted.top_k,
        wanted.min_score,
        wanted.mode,
        wanted.filter,
    )
    found = search_collection(tx, query, context)
    warnings = tuple(SearchWarning(*warning) for warning in found.warnings)
    return DocumentHits(tuple(found.items), warnings)

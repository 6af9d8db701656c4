"""The step `vector_search`."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, StringConstraints

from memrelay.memory.errors import RecordNotFound, Refused, SearchTooLong
from memrelay.memory.models.recipes.documents import (
    MAX_COLLECTION_CHARACTERS,
    MAX_QUERY_CHARACTERS,
    MAX_TOP,
    CollectionQuery,
    Mode,
    search_collection,
)
from memrelay.memory.models.recipes.step import Items, StepCall, StepFailed, step
from memrelay.memory.records.filters import Filter


@dataclass(frozen=True, slots=True)
class VectorSearch:
    """Parameters of `vector_search`."""

    collection: Annotated[
        str, StringConstraints(min_length=1, max_length=MAX_COLLECTION_CHARACTERS)
    ]
    """A collection of documents, `memory:` with the id or name of a named memory, or `store:` with
    the memory_id of a store of the pipeline."""
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP)] = 5
    """The maximum number of items."""
    min_score: Annotated[float, Field(ge=0, le=1)] | None = None
    """The lowest score of an item. The default is 0.5; without vectors it is 0."""
    query: Annotated[str, Field(max_length=MAX_QUERY_CHARACTERS)] | None = None
    """The text to find. By default the query of the run."""
    mode: Mode = "hybrid"
    """`hybrid`: any words, and meaning. `semantic`: meaning. `fts`: all words."""
    filter: Filter | None = None
    """Only records that pass this filter (docs/filters.md). `data` of a document has `uri`, `title`
    and `metadata`."""


@step("vector_search", "retrieval")
def vector_search(params: VectorSearch, call: StepCall) -> Items:
    """Find documents, entries of a named memory or records of a store, best first.

    Raises StepFailed: `unknown_collection`, `bad_param` for a query with too many words or a mode
    without vectors, or `timeout`.
    """
    wanted = CollectionQuery(
        params.collection,
        call.query if params.query is None else params.query,
        params.top_k,
        params.min_score,
        params.mode,
        params.filter,
    )
    try:
        found = search_collection(call.tx, wanted, call.context)
    except RecordNotFound as error:
        raise StepFailed("unknown_collection", str(error)) from error
    except SearchTooLong as error:
        raise StepFailed("timeout", str(error)) from error
    except Refused as error:
        raise StepFailed("bad_param", str(error)) from error
    for warning in found.warnings:
        call.warn(*warning)
    return found.items

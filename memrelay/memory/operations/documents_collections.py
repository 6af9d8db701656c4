"""documents.collections: lists the collections of documents."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.documents.documents import SCOPE
from memrelay.memory.sqlite.store import Transaction


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


@operation("documents.collections", access="read", mutates=False, home="recipes")
def collections(tx: Transaction, wanted: ListCollections, context: Context) -> Collections:
    """List the collections of documents by name. Each has at least one document."""
    found = tx.recipes.documents.count_by_scope()
    return Collections(
        tuple(CollectionView(scope.removeprefix(SCOPE), *counts) for scope, *counts in found)
    )

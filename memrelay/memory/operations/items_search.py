"""items.search: finds entries in all stores that the calling agent can use."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from pydantic import Field

from memrelay.memory.items.access import list_accessible
from memrelay.memory.items.identity import Identity, StoreId
from memrelay.memory.items.item import decode, namespace_of
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_search import SearchInput, search
from memrelay.memory.records.record import Record
from memrelay.memory.sqlite.filters import Given
from memrelay.memory.sqlite.store import Transaction

MOST = 50
MAX_STORES = 1000
# Other values are in no index. A search that matches everything must skip their entries too.
IS_VISIBLE = "r.kind = 'store.item' AND r.in_context = 1 AND r.encrypted = 0"


@dataclass(frozen=True, slots=True)
class SearchItems(Identity):
    """A search."""

    query: Annotated[str, Field(min_length=1)]
    """The words or the question to find."""
    stores: Annotated[tuple[StoreId, ...], Field(max_length=MAX_STORES)] = ()
    """Only these stores. By default all that the agent can use. Others are ignored."""
    limit: Annotated[int, Field(ge=1, le=MOST)] = 10
    """The maximum number of entries."""


@dataclass(frozen=True, slots=True)
class ItemHit:
    """An entry that was found."""

    key: str
    value: Any
    store: str
    owner: str
    namespace: str
    score: float
    """Higher is better."""


@dataclass(frozen=True, slots=True)
class ItemHits:
    """The entries found, best first."""

    items: tuple[ItemHit, ...]


@operation("items.search", access="search", mutates=False, home="stores", embeds="query")
def search_entries(tx: Transaction, wanted: SearchItems, context: Context) -> ItemHits:
    """Find entries by their words and their meaning, best first.

    It covers all stores that the agent can use, also those with search access only. Internal and
    encrypted entries are not found.

    Raises Refused: when the query exceeds a limit.
    Raises ResultTooLarge: when the result exceeds the size of an answer.
    Raises VectorPending: when the vector of the query is not computed yet.
    """
    return search_items(tx, wanted, context)


def search_items(tx: Transaction, wanted: SearchItems, context: Context) -> ItemHits:
    """Find entries inside an open transaction. Raises as `items.search` does."""
    accessible = [one.store for one in list_accessible(tx, wanted)[0]]
    stores = tuple(store for store in accessible if not wanted.stores or store in wanted.stores)
    if not stores:
        return ItemHits(())
    query = SearchInput(
        wanted.query,
        context.result_bytes,
        limit=wanted.limit,
        mode="hybrid",
        language=context.language,
        given=_visible_in(stores),
    )
    return ItemHits(tuple(_hits(tx, search(tx, query))))


def _visible_in(stores: tuple[str, ...]) -> Given:
    """Return the condition that an entry is visible and in one of the stores."""
    listed = orjson.dumps(stores).decode()
    among = "r.scope IN (SELECT value FROM json_each(?))"
    return Given(f"({among} AND {IS_VISIBLE})", (listed,), {"stores": stores})


def _hits(tx: Transaction, found: list[Record]) -> Iterator[ItemHit]:
    for record in found:
        further = tx.records.further(record.guid)
        yield ItemHit(
            further.key or "",
            decode(record.content, further.data, record.guid),
            record.scope,
            further.owner or "",
            namespace_of(further.data, record.guid),
            record.score,
        )

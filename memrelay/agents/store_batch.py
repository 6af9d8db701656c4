"""Run a batch of a LangGraph store: reads first, then the last write of each item.

The functions are generators. They yield the calls of operations as (name, input) and receive the
outputs, so that synchronous and asynchronous callers share them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import orjson
from langgraph.store.base import Item, SearchItem

from memrelay.agents.calls import CallSteps
from memrelay.agents.store_input import Get, Json, ListScopes, Put, Search, Step
from memrelay.memory.models.langgraph.table import SEPARATOR

# Items of one call, and scopes or items of one page.
MAX_ITEMS = 1000
# Bytes of the items in one call of records.put, which fit into a message in any case.
MAX_PUT_BYTES = 512 << 10
Value = TypeVar("Value")
View = Mapping[str, Any]


def run_batch(steps: Sequence[Step]) -> CallSteps[list[Any]]:
    """Return the result of each step, in their order."""
    results: list[Any] = [None] * len(steps)
    accessed: dict[str, None] = {}
    yield from _get_all(steps, results, accessed)
    for index, step in enumerate(steps):
        if isinstance(step, Search):
            results[index] = yield from _search(step, accessed)
        elif isinstance(step, ListScopes):
            results[index] = yield from _list_scopes(step)
    for guids in _chunks(list(accessed)):
        yield "records.touch", {"guids": guids}
    yield from _write_all(steps)
    return results


def _get_all(
    steps: Sequence[Step], results: list[Any], accessed: dict[str, None]
) -> CallSteps[None]:
    gets = [(index, step) for index, step in enumerate(steps) if isinstance(step, Get)]
    keys_by_scope: dict[str, dict[str, None]] = defaultdict(dict)
    for _, get in gets:
        keys_by_scope[get.scope][get.key] = None
    views: dict[tuple[str, str], View] = {}
    for scope, keys in keys_by_scope.items():
        for some in _chunks(list(keys)):
            remaining: Sequence[str] = some
            while remaining:
                output = yield "records.find", {"scope": scope, "keys": list(remaining)}
                views |= {(scope, item["key"]): item for item in output["items"]}
                remaining = output["remaining"]
    for index, get in gets:
        if (view := views.get((get.scope, get.key))) is not None:
            results[index] = Item(**_fields(view))
            _note_access(view, get.refresh, accessed)


def _search(search: Search, accessed: dict[str, None]) -> CallSteps[list[SearchItem]]:
    hits: list[tuple[View, float | None]]
    if search.limit and search.is_ranked:
        query = search.query | {"limit": search.offset + search.limit}
        ranked = (yield "records.search", query)["items"]
        hits = [(hit["record"], hit["score"]) for hit in ranked[search.offset :]]
    else:
        hits = [(view, None) for view in (yield from _list("records.list", "items", search))]
    for view, _ in hits:
        _note_access(view, search.refresh, accessed)
    return [SearchItem(**_fields(view), score=score) for view, score in hits]


def _list_scopes(step: ListScopes) -> CallSteps[list[tuple[str, ...]]]:
    scopes = yield from _list("records.scopes", "scopes", step)
    return [tuple(scope.split(SEPARATOR)) for scope in scopes]


def _list(name: str, field: str, step: Search | ListScopes) -> CallSteps[list[Any]]:
    """Return the results of a list, which a field of each page has.

    A page of long items may have fewer than its limit.
    """
    results: list[Any] = []
    while step.query is not None and len(results) < step.limit:
        window = {
            "offset": step.offset + len(results),
            "limit": min(step.limit - len(results), MAX_ITEMS),
        }
        page = yield name, step.query | window
        results += page[field]
        if not page[field] or step.offset + len(results) >= page["total"]:
            break
    return results


def _write_all(steps: Sequence[Step]) -> CallSteps[None]:
    last = {(step.scope, step.key): step.item for step in steps if isinstance(step, Put)}
    for items in _batches(item for item in last.values() if item is not None):
        yield "records.put", {"items": items}
    deleted: dict[str, list[str]] = defaultdict(list)
    for (scope, key), item in last.items():
        if item is None:
            deleted[scope].append(key)
    for scope, keys in deleted.items():
        for some in _chunks(keys):
            yield "records.remove", {"scope": scope, "keys": some}


def _batches(items: Iterable[Json]) -> Iterator[list[Json]]:
    """Yield the items of each call. Most batches need one, which is one transaction."""
    batch: list[Json] = []
    size = 0
    for item in items:
        item_bytes = len(orjson.dumps(item))
        if batch and (len(batch) == MAX_ITEMS or size + item_bytes > MAX_PUT_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item_bytes
    if batch:
        yield batch


def _chunks(values: list[Value]) -> Iterator[list[Value]]:
    for first in range(0, len(values), MAX_ITEMS):
        yield values[first : first + MAX_ITEMS]


def _fields(view: View) -> Json:
    """Return the fields of an item from the view of its record."""
    return {
        "namespace": tuple(view["scope"].split(SEPARATOR)),
        "key": view["key"],
        "value": view["data"]["value"],
        "created_at": view["created_at"],
        "updated_at": view["updated_at"],
    }


def _note_access(view: View, refresh: bool, accessed: dict[str, None]) -> None:
    """Note that an item with a time to live was read and should live on."""
    if refresh and view["expires_at"] is not None:
        accessed[view["guid"]] = None

"""Items of adapters: records of kind `memory.item` with unique keys, which `records.put` writes.

The functions are generators of calls: `calls.run_steps` or `arun_steps` runs them.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from memrelay.agents.calls import CallSteps

Json = dict[str, Any]
KIND = "memory.item"
# Items of one call.
MOST = 1000
# Bytes of the items of one call, which fit into a message in any case.
MAX_CALL_BYTES = 512 << 10
# A larger value is the text of its record.
MAX_DATA_BYTES = 48 << 10


def path(*parts: str) -> str:
    """Join names, so that no two lists of names have the same path."""
    return "/".join(quote(part, safe=" @.:+") for part in parts)


def is_below(prefix: str) -> Json:
    """Return the condition of texts that continue a path. `0` comes after `/`."""
    return {"gte": f"{prefix}/", "lt": f"{prefix}0"}


def make_item(place: tuple[str, str], value: Any, content: str = "", **fields: str) -> Json:
    """Return an item with a value as JSON text, a text for searches, and fields for filters."""
    scope, key = place
    text = json.dumps(value)
    if len(text) > MAX_DATA_BYTES and not content:
        return {"scope": scope, "key": key, "data": {"value": fields}, "content": text}
    data = {"value": {"json": text, **fields}}
    return {"scope": scope, "key": key, "data": data, "content": content}


def read_value(record: Json) -> Any:
    """Return the value of an item."""
    value = record["data"]["value"]
    return json.loads(value["json"] if "json" in value else record["content"])


def list_items(where: Json, limit: int | None = None) -> CallSteps[list[Json]]:
    """Return the items that pass a filter, by default all."""
    records: list[Json] = []
    cursor: str | None = ""
    while cursor is not None and (limit is None or len(records) < limit):
        query = {"kind": KIND, "filter": where, "cursor": cursor, "limit": limit or MOST}
        page = yield "records.list", query
        records += page["items"]
        cursor = page["next_cursor"]
    return records


def find_items(scope: str, keys: Sequence[str]) -> CallSteps[list[Json]]:
    """Return the items of keys, in their order, without those that do not exist."""
    records: list[Json] = []
    for start in range(0, len(keys), MOST):
        remaining = [*keys[start : start + MOST]]
        while remaining:
            found = yield "records.find", {"scope": scope, "keys": remaining}
            records += found["items"]
            remaining = found["remaining"]
    return records


def put_items(groups: Sequence[Sequence[Json]]) -> CallSteps[None]:
    """Write items. A group is in one transaction, as are up to 512 KiB of groups."""
    for items in _batches(groups):
        yield "records.put", {"items": items}


def remove_items(scope: str, keys: Sequence[str]) -> CallSteps[int]:
    """Remove items, and return how many existed."""
    removed = 0
    for start in range(0, len(keys), MOST):
        some = {"scope": scope, "keys": [*keys[start : start + MOST]]}
        removed += (yield "records.remove", some)["removed"]
    return removed


def _batches(groups: Sequence[Sequence[Json]]) -> Iterator[list[Json]]:
    batch: list[Json] = []
    size = 0
    for group in groups:
        added = len(json.dumps(group))
        if batch and (size + added > MAX_CALL_BYTES or len(batch) + len(group) > MOST):
            yield batch
            batch, size = [], 0
        batch += group
        size += added
    if batch:
        yield batch

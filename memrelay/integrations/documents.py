"""JSON documents by key, for adapters: the state of sessions and agents."""

import json
from collections.abc import Sequence
from typing import Any

from memrelay.agents.calls import Calls, CallSteps, make_calls
from memrelay.integrations.conversation import MOST, Json

# The store of LangGraph's items, which every pipeline has.
STORE = "langgraph"
# No search without this kind finds them.
KIND = "memory.item"


class Documents:
    """The documents of a scope. Each method yields calls: `calls.run_steps` runs them.

    A document is the content of an item of a LangGraph store.

    - `call` is a store of `open_store`, or a client of `connect` or `connect_sync`.
    - `uid` is the pipeline of a client, by default its only one. `store` is the memory_id.

    Raises TypeError for another `call`.
    """

    def __init__(self, call: Any, scope: str, *, uid: str = "", store: str = "") -> None:
        self.calls: Calls = make_calls(call, uid=uid, store=store or STORE)
        self._scope = scope

    def get(self, key: str) -> CallSteps[Any]:
        """Return a document, or None."""
        found = yield "records.find", {"scope": self._scope, "keys": [key]}
        return json.loads(found["items"][0]["content"]) if found["items"] else None

    def put(self, key: str, document: Any) -> CallSteps[None]:
        """Write a document. Its earlier states stay in the history."""
        text = json.dumps(document, ensure_ascii=False)
        item = {"scope": self._scope, "key": key, "content": text, "data": {"value": {}}}
        yield "records.put", {"items": [item]}

    def delete(self, keys: Sequence[str]) -> CallSteps[int]:
        """Delete documents, and return how many existed."""
        removed = 0
        for start in range(0, len(keys), MOST):
            batch = [*keys[start : start + MOST]]
            done = yield "records.remove", {"scope": self._scope, "keys": batch}
            removed += done["removed"]
        return removed

    def list(self) -> CallSteps[dict[str, Any]]:
        """Return all documents by key, the oldest first."""
        records = yield from _list({"scope": {"eq": self._scope}})
        return {record["key"]: json.loads(record["content"]) for record in records}


def find_documents(above: str, key: str = "") -> CallSteps[list[tuple[str, Any]]]:
    """Return the documents in all scopes that begin with `above` and a slash, the oldest first,
    each with its scope. With `key`, only those of this key.
    """
    conditions: Json = {"scope": {"gte": f"{above}/", "lt": f"{above}{chr(ord('/') + 1)}"}}
    if key:
        conditions["key"] = {"eq": key}
    records = yield from _list(conditions)
    return [(record["scope"], json.loads(record["content"])) for record in records]


def _list(conditions: Json) -> CallSteps[list[Json]]:
    records: list[Json] = []
    cursor: str | None = ""
    while cursor is not None:
        where = {"kind": KIND, "filter": conditions, "limit": MOST, "cursor": cursor}
        page = yield "records.list", where
        records += page["items"]
        cursor = page["next_cursor"]
    return records

"""JSON documents by key, for adapters: the state of sessions and agents."""

from collections.abc import Sequence
from typing import Any

import orjson

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
        return orjson.loads(found["items"][0]["content"]) if found["items"] else None

    def put(self, key: str, document: Any) -> CallSteps[None]:
        """Write a document. Its earlier states stay in the history."""
        text = orjson.dumps(document).decode()
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
        documents: dict[str, Json] = {}
        cursor: str | None = ""
        while cursor is not None:
            where = {"kind": KIND, "scope": self._scope, "limit": MOST, "cursor": cursor}
            page = yield "records.list", where
            documents |= {one["key"]: orjson.loads(one["content"]) for one in page["items"]}
            cursor = page["next_cursor"]
        return documents

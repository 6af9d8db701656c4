"""MemrelayStore: the long-term memory of LangGraph agents, kept as records."""

from collections.abc import Iterable
from inspect import signature
from typing import Any

from langgraph.store.base import BaseStore, IndexConfig, Op, Result, TTLConfig

from memrelay.agents.calls import Calls, make_calls
from memrelay.agents.store_batch import run_batch
from memrelay.agents.store_input import WHOLE_VALUE, Step, checked_fields, checked_ttl, make_step
from memrelay.memory.engine.memory_id import check

# The keys of `index`.
FIELDS, OTHERS = "fields", ("embed", "dims")
# The parameter by which a client selects a pipeline.
PIPELINE = "pipeline"


class MemrelayStore(BaseStore):
    """A LangGraph store whose items are records of kind `memory.item`.

    - `call` executes operations: a store from `open_store`, a client from `connect` or
      `connect_sync`, or the calls of an agent.
    - `store` is the store of the pipeline: a name below `instances/UID/`, or a whole memory_id,
      whose UID also selects the pipeline of a client (by default its only one). An embedded store
      is the file itself, and ignores `store`.
    - `index` has the key `fields`: the paths of the texts by which a query finds an item. By
      default that is the whole value. The worker's embedder makes the vectors.
    - `ttl` has `default_ttl` in minutes, and `refresh_on_read` (default true).

    Raises ValueError for other keys of `index`, an invalid `default_ttl`, and an invalid `store`.
    Raises TypeError for a `call` that executes no operations.
    """

    supports_ttl = True

    def __init__(
        self,
        call: Any,
        *,
        store: str = "langgraph",
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        self._fields = _parse_fields(index)
        checked_ttl((ttl or {}).get("default_ttl"))
        self.ttl_config = ttl
        self._calls = _calls_on(call, store)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations and return their results, in their order.

        Reads see the state before the batch, and only the last put of each item counts. One
        transaction has up to 1000 puts and 512 KiB. Larger batches are written in parts.

        Raises ValueError: an operation is invalid. Then nothing runs.
        """
        return self._calls.run_steps(run_batch(self._steps(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations as `batch` does."""
        return await self._calls.arun_steps(run_batch(self._steps(ops)))

    def _steps(self, ops: Iterable[Op]) -> list[Step]:
        return [make_step(op, self._fields) for op in ops]


def _calls_on(call: Any, store: str) -> Calls:
    """Return the operations of a call on a store. Raises BadMemoryId and TypeError."""
    if "/" not in store:
        # The owner of the pipeline knows the whole memory_id.
        check(f"instances/uid/{store}")
        return make_calls(call, store=store)
    top, uid, *_ = check(store).split("/")
    names = signature(call.operate).parameters if hasattr(call, "operate") else ()
    has_uid = top == "instances" and PIPELINE in names
    return make_calls(call, uid=uid if has_uid else "", store=store)


def _parse_fields(index: IndexConfig | None) -> tuple[str, ...]:
    """Return the paths of the texts by which items are found. Raises ValueError."""
    options = dict(index or {})
    fields = options.pop(FIELDS, None)
    if unknown := sorted(options):
        reason = (
            "the embedder of the worker makes the vectors"
            if set(unknown) <= set(OTHERS)
            else "it is unknown"
        )
        raise ValueError(f"omit {', '.join(unknown)} from `index`: {reason}; it takes `fields`")
    return (WHOLE_VALUE,) if fields is None else checked_fields(fields)

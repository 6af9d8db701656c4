"""Opens another store of the same pipeline for the reads of an operation or block."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from memrelay.memory.engine.memory_id import is_closed
from memrelay.memory.engine.open_for_read import read_only
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.errors import Refused
from memrelay.pipelines.plan import Plan

if TYPE_CHECKING:
    from memrelay.memory.engine.open_for_read import ReadOnlyStore


def open_second_store(
    stores: OpenStores,
    plan: Plan,
    memory_id: str,
    act: tuple[int, str],
    touched: Mapping[str, Store],
) -> "ReadOnlyStore":
    """Return a view of a store of the plan for reads, in the same thread and without a transaction.

    A store in `touched` has uncommitted writes of the batch, which are visible. `act` is the time
    (Unix ms) and the actor of the reader. Raises Refused for a store of another pipeline and for
    the built-in store of the items, whose operations check the access.
    """
    readable = [name for name in plan.all_stores if not is_closed(name)]
    if memory_id not in readable:
        raise Refused(
            f"pipeline {plan.uid} has no store {memory_id[:200]!r} to read; it has "
            f"{', '.join(readable)}"
        )
    store = touched.get(memory_id) or stores.get(memory_id)
    if store.records.versions.current_act[:2] != act:
        store.records.set_actor(*act)
    return read_only(store)

"""Notes what led to the changes of an input, for the deliveries to endpoints."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from memrelay.memory.engine.features import CAUSES, FEATURES
from memrelay.memory.engine.models import load
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.stores import OpenStores
from memrelay.pipelines.plan import Plan


def has_causes(stores: OpenStores, plan: Plan) -> bool:
    """Return whether the stores of a pipeline note causes, because it has endpoints."""
    return bool(plan.stores) and stores.get(plan.stores[0]).has_feature(CAUSES)


@contextmanager
def note_cause(
    stores: OpenStores,
    plan: Plan,
    touched: Mapping[str, Store],
    *,
    hop: int = 0,
    traceparent: str = "",
) -> Iterator[None]:
    """Note the cause of all changes that are made inside, in their transactions.

    `touched` has the stores with an open transaction.
    """
    before = {name: _count(stores.get(name)) for name in plan.all_stores if stores.exists(name)}
    yield
    for name, store in touched.items():
        if store.has_feature(CAUSES):
            causes = store.table(load(FEATURES[CAUSES]))
            causes.note(before.get(name, 0), (hop, traceparent))


def _count(store: Store) -> int:
    """Return the number of the newest change."""
    store.feed.complete()
    return store.feed.last

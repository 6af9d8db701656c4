"""Which features the write path of each store has, by its pipelines' bundles and endpoints."""

from collections.abc import Sequence

from memrelay.memory.engine.features import FEED
from memrelay.memory.engine.stores import OpenStores
from memrelay.pipelines.plan import Plan

# The built-in store whose existence shows that a pipeline has endpoints.
ENDPOINTS = "endpoints"


def find_features(plans: Sequence[Plan], stores: OpenStores) -> dict[str, frozenset[str]]:
    """Return the features of each store of these pipelines, which may share some.

    Deliveries to endpoints are made of the change feed.
    """
    feeds = {name for plan in plans for name in plan.feeds}
    for plan in plans:
        if stores.exists(plan.built_in_stores[ENDPOINTS]):
            feeds.update(plan.all_stores)
    return {
        name: frozenset({FEED} if name in feeds else ())
        for plan in plans
        for name in plan.all_stores
    }

"""Which features the write path of each store has, by its pipelines' bundles and endpoints."""

from collections.abc import Callable, Collection, Sequence
from functools import partial

from memrelay.memory.engine.features import CAUSES, FEED, INPUTS, POLICIES, RECEIPTS, VIEWS
from memrelay.memory.engine.memory_id import is_closed
from memrelay.memory.engine.models import load
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.stores import OpenStores
from memrelay.pipelines.plan import Plan

# The built-in store whose existence shows that a pipeline has endpoints.
ENDPOINTS = "endpoints"
# What a bundle declares for a store, by the feature and the attribute of the plan. The function
# writes it into the store.
DECLARED = {
    POLICIES: "memrelay.memory.models.policies.table:declare_policies",
    VIEWS: "memrelay.memory.models.views.table:declare_views",
}


def compose_stores(
    plans: Sequence[Plan], stores: OpenStores, without: Collection[str] = ()
) -> None:
    """Give the stores of these pipelines their features, and the policies and views that their
    bundles declare, now and whenever one is opened. The features `without` are left out.
    """
    stores.prepare = partial(_declare, plans)
    features = find_features(plans, stores)
    stores.compose({name: those.difference(without) for name, those in features.items()})


def open_declared(plans: Sequence[Plan], stores: OpenStores) -> None:
    """Open the existing stores with policies or views of a bundle, so that their files have
    them.
    """
    names = {name for plan in plans for one in DECLARED for name in getattr(plan, one)}
    for name in names:
        if stores.exists(name):
            stores.get(name)


def _declare(plans: Sequence[Plan], store: Store) -> None:
    for plan in plans:
        for feature, function in DECLARED.items():
            declared = getattr(plan, feature).get(store.memory_id, ())
            if declared or (store.has_feature(feature) and store.memory_id in plan.all_stores):
                load(function)(store, plan.uid, declared, plan.deployed_at_ms)


def find_features(plans: Sequence[Plan], stores: OpenStores) -> dict[str, frozenset[str]]:
    """Return the features of each store of these pipelines, which may share some.

    Deliveries to endpoints are made of the change feed, and continue what led to a change.
    """
    wanted = {
        FEED: {name for plan in plans for name in plan.feeds},
        INPUTS: {name for plan in plans if plan.inputs_days for name in _open_stores(plan)},
        RECEIPTS: {name for plan in plans for name in plan.receipt_stores},
        CAUSES: set(),
    }
    for plan in plans:
        if plan.endpoints or stores.exists(plan.built_in_stores[ENDPOINTS]):
            wanted[FEED].update(plan.all_stores)
            wanted[CAUSES].update(plan.all_stores)
    return {
        name: frozenset(feature for feature, names in wanted.items() if name in names)
        for plan in plans
        for name in plan.all_stores
    }


def _open_stores(plan: Plan) -> list[str]:
    """Return the stores that may keep inputs. Those of closed stores hold values to seal, and
    those of endpoints hold secrets.
    """
    endpoints = plan.built_in_stores[ENDPOINTS]
    return [name for name in plan.all_stores if not is_closed(name) and name != endpoints]


def find_inputs_days(plans: Sequence[Plan]) -> dict[str, float]:
    """Return how many days each store keeps inputs: the most of the pipelines that share it."""
    return _find_most(plans, lambda plan: plan.inputs_days)


def find_receipts_days(plans: Sequence[Plan]) -> dict[str, float]:
    """Return how many days each store keeps receipts: the most of the pipelines that share it."""
    return _find_most(plans, lambda plan: plan.receipts_days)


def _find_most(plans: Sequence[Plan], days_of: Callable[[Plan], float]) -> dict[str, float]:
    days: dict[str, float] = {}
    for plan in plans:
        for name in plan.all_stores:
            days[name] = max(days.get(name, 0), days_of(plan))
    return days

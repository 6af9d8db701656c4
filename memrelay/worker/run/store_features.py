"""Which features the write path of each store has, by its pipelines' bundles and endpoints."""

from collections.abc import Callable, Collection, Sequence
from functools import partial

from memrelay.memory.engine.features import CAUSES, FEED, INPUTS, POLICIES, RECEIPTS
from memrelay.memory.engine.memory_id import is_closed
from memrelay.memory.engine.models import load
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.stores import OpenStores
from memrelay.pipelines.plan import Plan

# The built-in store whose existence shows that a pipeline has endpoints.
ENDPOINTS = "endpoints"
# Writes the policies of a bundle into a store.
DECLARE_POLICIES = "memrelay.memory.models.policies.table:declare_policies"


def compose_stores(
    plans: Sequence[Plan], stores: OpenStores, without: Collection[str] = ()
) -> None:
    """Give the stores of these pipelines their features, and the policies that their bundles
    declare, now and whenever one is opened. The features `without` are left out.
    """
    stores.prepare = partial(_declare_policies, plans)
    features = find_features(plans, stores)
    stores.compose({name: those.difference(without) for name, those in features.items()})


def open_declared(plans: Sequence[Plan], stores: OpenStores) -> None:
    """Open the existing stores with policies of a bundle, so that their files have them."""
    for name in {name for plan in plans for name in plan.policies}:
        if stores.exists(name):
            stores.get(name)


def _declare_policies(plans: Sequence[Plan], store: Store) -> None:
    for plan in plans:
        declared = plan.policies.get(store.memory_id, ())
        if declared or (store.has_feature(POLICIES) and store.memory_id in plan.all_stores):
            load(DECLARE_POLICIES)(store, plan.uid, declared, plan.deployed_at_ms)


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

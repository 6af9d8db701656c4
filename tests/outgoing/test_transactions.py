"""A change has deliveries exactly if it was committed."""

from pathlib import Path

import pytest

from memrelay.memory.engine.filter_sql import Conditions
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.errors import StoreBusy
from memrelay.memory.models.endpoints.outbox import collect
from memrelay.memory.models.endpoints.table import Endpoint, EndpointSpec, EndpointTable
from memrelay.pipelines.plan import Plan
from memrelay.worker.run.store_features import ENDPOINTS, find_features
from tests.support.locks import locked
from tests.worker.test_batch import make_batch
from tests.worker.test_kept_inputs import A, B, make_entry, make_plan, open_stores

NOW_MS = 1_900_000_000_000


def add_endpoint(stores: OpenStores, plan: Plan) -> None:
    spec = EndpointSpec("https://example.com/hook")
    with stores.get(plan.built_in_stores[ENDPOINTS]).transaction() as tx:
        tx.table(EndpointTable).put(Endpoint("ep_1", spec, (), "", 1, 1))
    stores.compose(find_features([plan], stores))


def list_deliveries(stores: OpenStores, plan: Plan) -> list[tuple[str, str]]:
    """Make deliveries of the changes, and return the store and the type of each."""
    name = plan.built_in_stores[ENDPOINTS]
    collect(stores, name, plan.all_stores, NOW_MS)
    found = stores.get(name).table(EndpointTable).select("ORDER BY store", ())
    return [(one.store, one.type) for one in found]


def test_a_batch_that_rolls_back_leaves_no_delivery(tmp_path: Path) -> None:
    plan = make_plan(days=0)
    stores = open_stores(tmp_path, plan)
    add_endpoint(stores, plan)
    stores.get(A), stores.get(B)
    batch = make_batch(make_entry(plan, "1-0", "/a one"), make_entry(plan, "2-0", "/b two"))
    with locked(tmp_path / f"{B}.db"), pytest.raises(StoreBusy):
        batch.run(stores)
    assert list_deliveries(stores, plan) == []

    batch.run(stores)

    assert [stores.get(one).records.count(Conditions()) for one in (A, B)] == [1, 1]
    assert list_deliveries(stores, plan) == [(A, "record.created"), (B, "record.created")]
    stores.close_all()

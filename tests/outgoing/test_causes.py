"""The changes of one batch have the hops of their own input, in the transaction of the change."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from memrelay.memory.engine.features import CAUSES, FEED
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.errors import StoreBusy
from memrelay.memory.models.endpoints.causes import ChangeCauses
from memrelay.pipelines.plan import Plan
from memrelay.worker.run.inputs import Entry
from tests.support.locks import locked
from tests.worker.test_batch import make_batch, make_entry, make_two_stores

A, B = "instances/p/a", "instances/p/b"
BOTH = frozenset({FEED, CAUSES})


def make_later(plan: Plan, ident: str, text: str, hop: str) -> Entry:
    entry = make_entry(plan, ident, text)
    return replace(entry, fields=[*entry.fields, b"hop", hop.encode()])


def find_hops(stores: OpenStores, name: str) -> list[int]:
    store = stores.get(name)
    causes = store.table(ChangeCauses)
    return [causes.find(change.n).hop for change in store.feed.after(0, 100)]


def test_changes_of_one_batch_have_the_hops_of_their_inputs(tmp_path: Path) -> None:
    plan, stores = make_two_stores(), OpenStores(tmp_path, 10)
    stores.compose({A: BOTH, B: BOTH})
    stores.get(A), stores.get(B)
    batch = make_batch(
        make_entry(plan, "1-0", "/a one"),
        make_later(plan, "1-1", "/a two", "3"),
        make_later(plan, "1-2", "/b two", "7"),
        make_entry(plan, "1-3", "/a three"),
    )
    with locked(tmp_path / f"{B}.db"), pytest.raises(StoreBusy):
        batch.run(stores)

    batch.run(stores)

    assert (find_hops(stores, A), find_hops(stores, B)) == ([0, 3, 0], [7])
    stores.close_all()


def test_causes_end_with_the_rows_of_the_feed(tmp_path: Path) -> None:
    plan, stores = make_two_stores(), OpenStores(tmp_path, 10)
    stores.compose({A: BOTH, B: BOTH})
    make_batch(make_later(plan, "1-0", "/a one", "3")).run(stores)
    make_batch(make_entry(plan, "2-0", "/a two")).run(stores)
    store = stores.get(A)
    with store.transaction():
        store.feed.delete_before(1 << 50)

    make_batch(make_later(plan, "3-0", "/a three", "5")).run(stores)

    rows = list(store.connection.execute("SELECT first, last, hop FROM change_causes"))
    assert rows == [(3, 3, 5)]
    stores.close_all()


def test_a_pipeline_without_endpoints_notes_no_causes(tmp_path: Path) -> None:
    plan, stores = make_two_stores(), OpenStores(tmp_path, 10)
    stores.compose({A: frozenset({FEED}), B: frozenset({FEED})})

    make_batch(make_later(plan, "1-0", "/a one", "3")).run(stores)

    assert find_hops(stores, A) == [0]
    stores.close_all()

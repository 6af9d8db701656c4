"""A feature joins the write path of the stores that have it, and of no other."""

import subprocess
import sys
from pathlib import Path

import pytest

from memrelay.memory.engine.features import FEATURES, FEED
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.errors import StoreBusy
from tests.support.locks import locked
from tests.worker.test_batch import make_batch, make_entry, make_two_stores

A, B = "instances/p/a", "instances/p/b"
Rows = list[tuple[str, str]]


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(FEATURES, "diary", "tests.support.planted_feature:Diary")
    return "diary"


def read_diary(stores: OpenStores, memory_id: str) -> Rows:
    return list(stores.get(memory_id).connection.execute("SELECT * FROM diary"))


def guids(stores: OpenStores, memory_id: str) -> list[str]:
    found = stores.get(memory_id).connection.execute("SELECT guid FROM records ORDER BY row")
    return [guid for (guid,) in found]


def test_a_feature_gets_the_inputs_and_changes_of_its_store(tmp_path: Path, planted: str) -> None:
    plan, stores = make_two_stores(), OpenStores(tmp_path, 10)
    stores.compose({A: frozenset({planted})})
    texts = {"1-0": "/a one", "2-0": "/b two", "3-0": "/a three"}

    make_batch(*[make_entry(plan, *one) for one in texts.items()]).run(stores)

    assert read_diary(stores, A) == [("1-0,3-0", ",".join(guids(stores, A)))]
    assert not stores.get(B).connection.table_exists(None, "diary")
    stores.close_all()


def test_a_feature_writes_nothing_for_a_batch_that_rolls_back(tmp_path: Path, planted: str) -> None:
    plan, stores = make_two_stores(), OpenStores(tmp_path, 10)
    stores.compose({A: frozenset({planted})})
    stores.get(A), stores.get(B)
    batch = make_batch(make_entry(plan, "1-0", "/a one"), make_entry(plan, "2-0", "/b two"))
    with locked(tmp_path / f"{B}.db"), pytest.raises(StoreBusy):
        batch.run(stores)
    assert read_diary(stores, A) == []

    batch.run(stores)

    assert read_diary(stores, A) == [("1-0", guids(stores, A)[0])]
    stores.close_all()


def test_the_path_is_composed_again_between_two_batches(tmp_path: Path, planted: str) -> None:
    plan, stores = make_two_stores(), OpenStores(tmp_path, 10)
    for number, features in enumerate(({planted}, set[str](), {planted, FEED}), 1):
        stores.compose({A: frozenset(features)})
        make_batch(make_entry(plan, f"{number}-0", "/a one")).run(stores)

    assert [ids for ids, _ in read_diary(stores, A)] == ["1-0", "3-0"]
    assert stores.get(A).feed.last == 1
    stores.close_all()


def test_a_feature_that_is_off_has_no_hook_and_is_not_loaded(tmp_path: Path) -> None:
    stores = OpenStores(tmp_path, 10)
    path = stores.get(A).records.path
    assert (path.created, path.changed, path.selected, path.ran, path.complete) == ((),) * 5
    stores.close_all()
    program = (
        "import sys; from pathlib import Path\n"
        "from memrelay.memory.engine.features import FEATURES\n"
        "from memrelay.memory.engine.store import Store\n"
        "FEATURES['diary'] = 'tests.support.planted_feature:Diary'\n"
        "Store('instances/p/a', Path(sys.argv[1])).close()\n"
        "print('tests.support.planted_feature' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "other.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

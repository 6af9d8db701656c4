"""The open stores of a thread: found by memory_id, limited in number, never closed during a
transaction."""

import resource
import sqlite3
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from memrelay.memory.engine.damage import note_of
from memrelay.memory.engine.free_memory import return_free_memory
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.stores import IDLE_PROBES, MOST_WITH_PAGES, OpenStores
from memrelay.memory.errors import BadMemoryId, StoreBroken, StoreDamaged, StoreFenced
from memrelay.memory.records.writing import write
from tests.memory.builders import contents, make_record, read_all, write_all
from tests.support.damage import PAGE

IDS = [f"instances/a3d8f1b2/store{number}" for number in range(5)]


def is_open(store: Store) -> bool:
    try:
        store.rollback()
    except apsw.ConnectionClosedError:
        return False
    return True


def damage_table(path: Path, name: str) -> None:
    """Overwrite the first page of a table."""
    with closing(sqlite3.connect(path)) as connection:
        ((page,),) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)
        )
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(b"\xff" * PAGE)


def test_a_store_is_opened_once(tmp_path: Path) -> None:
    stores = OpenStores(tmp_path, 2)

    assert stores.get(IDS[0]) is stores.get(IDS[0])


def test_a_store_exists_after_its_first_use(tmp_path: Path) -> None:
    stores = OpenStores(tmp_path, 2)
    before = stores.exists(IDS[0])

    stores.get(IDS[0])
    while_open = stores.exists(IDS[0])
    stores.close_all()

    assert (before, while_open, stores.exists(IDS[0])) == (False, True, True)
    assert not store_path(tmp_path, IDS[1]).parent.joinpath("store1.db").exists()


def test_the_least_recently_used_store_is_closed_first(tmp_path: Path) -> None:
    stores = OpenStores(tmp_path, 2)
    first, second = stores.get(IDS[0]), stores.get(IDS[1])
    stores.get(IDS[0])

    third = stores.get(IDS[2])

    assert [is_open(store) for store in (first, second, third)] == [True, False, True]


def test_an_evicted_store_is_reopened_with_its_records(tmp_path: Path) -> None:
    stores = OpenStores(tmp_path, 1)
    for name in IDS:
        write_all(stores.get(name), f"tea of {name}")

    held = [contents(read_all(stores.get(name))) for name in IDS]

    assert held == [[f"tea of {name}"] for name in IDS]


def test_a_damaged_fencing_epoch_is_noted_and_leaves_no_transaction(tmp_path: Path) -> None:
    stores, path = OpenStores(tmp_path, 1), store_path(tmp_path, IDS[0])
    stores.get(IDS[0])
    stores.close_all()
    damage_table(path, "fence")

    with closing(Store(IDS[0], path)) as store:
        with pytest.raises(StoreDamaged, match="malformed"):
            store.take_over(1)
        assert not store.connection.in_transaction
    with pytest.raises(StoreDamaged, match="malformed"):
        stores.take_over(IDS[0], 1)

    assert note_of(path).exists()


def test_a_store_in_a_transaction_is_not_evicted(tmp_path: Path) -> None:
    stores = OpenStores(tmp_path, 1)
    busy = stores.get(IDS[0])
    busy.begin()
    write(busy, make_record("tea"))

    for name in IDS[1:]:
        write_all(stores.get(name), "milk")
    busy.commit()

    assert contents(read_all(busy)) == ["tea"]


def test_a_requested_store_is_open_even_if_all_others_are_in_use(tmp_path: Path) -> None:
    stores = OpenStores(tmp_path, 1)

    for name in IDS:
        store = stores.get(name)
        store.begin()
        write(store, make_record("tea"))
    for name in IDS:
        stores.get(name).commit()

    assert [contents(read_all(stores.get(name))) for name in IDS] == [["tea"]] * 5


def test_idle_stores_are_evicted(tmp_path: Path) -> None:
    stores = OpenStores(tmp_path, 2)
    used = [stores.get(name) for name in IDS[:4]]
    for store in used[2:]:
        assert is_open(store)

    assert [is_open(store) for store in used] == [False, False, True, True]


def test_a_rejected_or_broken_store_evicts_no_other(tmp_path: Path) -> None:
    stores = OpenStores(tmp_path, 1)
    kept = stores.get(IDS[0])
    store_path(tmp_path, IDS[1]).write_text("no database")

    with pytest.raises(BadMemoryId):
        stores.get("../../x")
    with pytest.raises(StoreBroken):
        stores.get(IDS[1])

    assert stores.get(IDS[0]) is kept
    assert is_open(kept)


def test_closing_rolls_back_and_ignores_an_unknown_store(tmp_path: Path) -> None:
    stores = OpenStores(tmp_path, 2)
    store = stores.get(IDS[0])
    store.begin()
    write(store, make_record("lost"))

    stores.close(IDS[0])
    stores.close(IDS[1])

    assert read_all(stores.get(IDS[0])) == []


def test_a_used_epoch_cannot_take_over_and_a_newer_epoch_fences_the_old_owner(
    tmp_path: Path,
) -> None:
    before, after = OpenStores(tmp_path, 2), OpenStores(tmp_path, 2)
    before.take_over(IDS[0], 1)
    write_all(before.get(IDS[0]), "tea")

    with pytest.raises(StoreFenced) as fenced:
        after.take_over(IDS[0], 1)
    after.take_over(IDS[0], fenced.value.epoch + 1)

    with pytest.raises(StoreFenced):
        before.get(IDS[0]).begin()
    assert contents(read_all(after.get(IDS[0]))) == ["tea"]


def test_an_owner_can_take_over_and_reopen_its_store_again(
    tmp_path: Path,
) -> None:
    stores = OpenStores(tmp_path, 1)
    write_all(stores.get(IDS[0]), "tea")

    for _ in range(2):
        stores.take_over(IDS[0], 1)
    stores.get(IDS[1])

    write_all(stores.get(IDS[0]), "milk")
    assert contents(read_all(stores.get(IDS[0]))) == ["tea", "milk"]


def test_the_pages_of_all_but_the_last_used_stores_are_freed(tmp_path: Path) -> None:
    size, surplus = 400_000, 8
    stores = OpenStores(tmp_path, 2 * MOST_WITH_PAGES)
    names = [f"instances/a3d8f1b2/more{number}" for number in range(MOST_WITH_PAGES + surplus)]
    for name in names:
        write_all(stores.get(name), "x" * size)
    before = apsw.memory_used()

    stores.probe()

    assert before - apsw.memory_used() > surplus * size
    assert [len(one.content) for one in read_all(stores.get(names[0]))] == [size]
    stores.close_all()


def test_stores_that_nobody_uses_are_closed_and_open_again(tmp_path: Path) -> None:
    stores = OpenStores(tmp_path, 2)
    unused, used = [stores.get(name) for name in IDS[:2]]
    write_all(unused, "tea")

    for _ in range(IDLE_PROBES + 1):
        stores.get(IDS[1])
        stores.probe()

    assert not is_open(unused) and stores.get(IDS[1]) is used
    assert contents(read_all(stores.get(IDS[0]))) == ["tea"]
    stores.close_all()


def read_rss() -> int:
    """Return the bytes of memory that this process has, without what the allocator keeps."""
    return_free_memory()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.slow
def test_many_new_stores_leave_little_memory_when_they_are_idle(tmp_path: Path) -> None:
    count, most_per_store = 300, 100_000
    stores = OpenStores(tmp_path, 1000)
    write_all(stores.get(IDS[0]), "warm")
    before = read_rss()

    grown = []
    for turn in range(3):
        for number in range(count):
            write_all(stores.get(f"instances/a3d8f1b2/turn{turn}-{number}"), f"tea {number}")
        for _ in range(IDLE_PROBES + 1):
            stores.probe()
        grown.append(read_rss() - before)

    assert max(grown) < count * most_per_store
    assert grown[-1] - grown[0] < 2 * count * most_per_store / 10
    stores.close_all()

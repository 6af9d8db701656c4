"""Snapshots: made while others write, and nothing of them stays when one cannot be made."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from memrelay.memory.engine.as_of import PastState, PastStates
from memrelay.memory.engine.copy import copy_database
from memrelay.memory.engine.memory_id import list_stores
from memrelay.memory.engine.snapshots import Snapshots
from memrelay.memory.engine.store import MAX_LOG_BYTES, Store
from memrelay.memory.errors import StoreBusy
from tests.memory.builders import MEMORY_ID, NOW, make_store, perform_at, write_all
from tests.support.disk import small_disk
from tests.support.waiting import wait_for

RECORDS, CHANGED = 4000, 400
# More commits than fit in the time of a snapshot.
MOST_COMMITS = 100_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store of 5 MB, in which some records changed since the state `then`."""
    store = make_store(tmp_path_factory.mktemp("live"))
    guids = write_all(store, *(f"tea number {n} " + "word " * 200 for n in range(RECORDS)))
    with store.transaction():
        for guid in guids[:CHANGED]:
            store.records.set_actor(NOW, "test")
            place = store.records.by_guid(guid)
            assert place is not None
            store.records.delete(place)
    store.checkpoint()
    yield store
    store.close()


@pytest.fixture
def then(store: Store) -> PastState:
    return store.table(PastStates).find(f"n:{RECORDS}")


def files_below(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file() and path.name != "ballast"]


@pytest.mark.parametrize("room", [0, 200_000, 4_000_000, 7_000_000, 8_500_000])
def test_a_full_disk_is_reported_and_the_next_snapshot_is_made(
    room: int, store: Store, then: PastState, tmp_path: Path
) -> None:
    small = tmp_path / "small"
    with small_disk(small, 24) as disk, closing(Snapshots(small, 1)) as made:
        disk.fill(room)
        with pytest.raises(StoreBusy, match=r"make room.*, and try again"):
            made.make(MEMORY_ID, Path(store.path), then)
        assert files_below(small) == []
        disk.free()
        snapshot = made.make(MEMORY_ID, Path(store.path), then)
        assert perform_at(snapshot.store, NOW, "records.search", query="number 7").items


def test_a_store_is_written_while_its_snapshot_is_made(store: Store, tmp_path: Path) -> None:
    copy_database(Path(store.path), path := tmp_path / "live.db")
    done, commits = threading.Event(), list[int]()

    def write() -> int:
        """Commit until the snapshot is made, and return the size of the log."""
        with closing(Store(MEMORY_ID, path)) as live:
            while not done.is_set() and len(commits) < MOST_COMMITS:
                write_all(live, f"milk number {len(commits)}")
                commits.append(live.records.versions.last_change)
            live.probe()
            return Path(f"{path}-wal").stat().st_size

    with ThreadPoolExecutor(1) as writer, closing(Snapshots(tmp_path, 1 << 30)) as made:
        log = writer.submit(write)
        wait_for(lambda: commits, "it writes")
        with closing(Store(MEMORY_ID, path)) as live:
            then = live.table(PastStates).find(f"n:{RECORDS}")
        before = len(commits)
        snapshot = made.make(MEMORY_ID, path, then)
        during = len(commits) - before
        done.set()
        assert log.result() <= MAX_LOG_BYTES
        # It was not copied again for each of them.
        assert during > 0 and len(commits) < MOST_COMMITS
        listed = perform_at(snapshot.store, NOW, "records.list", order="desc", limit=1)
        assert "tea" in listed.items[0].content


def test_a_snapshot_is_no_store(store: Store, then: PastState) -> None:
    root = Path(store.path).parents[2]
    with closing(Snapshots(root, 1 << 30)) as made:
        made.make(MEMORY_ID, Path(store.path), then)
        assert [path.parent.name[:6] for path in root.glob(".asof-*/*.db")] == [".asof-"]
        assert list_stores(root) == [MEMORY_ID]
    assert list(root.glob(".asof-*")) == []

"""A salvage reads a file with and without its log, and keeps what either has."""

import os
import shutil
from pathlib import Path

import pytest

from memrelay.memory.engine.copy import FOR_SCRUB, temporary_copy
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import StoreBroken, StoreDamaged
from memrelay.memory.transfer.salvage import salvage_store
from tests.memory.builders import assert_sound, make_store, perform, read_all, write_all
from tests.support.damage import PAGE, flip_bytes, log_of


def texts(name: str, first: int, last: int) -> list[str]:
    return [f"{name} {number} {'leaf ' * 50}" for number in range(first, last)]


def names_in(root: Path) -> set[str]:
    """Return the first two words of all records."""
    store = make_store(root)
    with store.transaction() as tx:
        found = {" ".join(record.content.split()[:2]) for record in read_all(tx)}
    store.close()
    assert_sound(store.path)
    return found


def put_back(store: Store, *files: Path) -> None:
    """Close the store, and put the copies of its file and its log in their place."""
    store.close()
    for file in files:
        shutil.copyfile(file, Path(store.path).parent / file.name)


def saved(folder: Path, *files: Path) -> list[Path]:
    """Copy files to a folder of their own, which may be used later."""
    folder.mkdir()
    return [Path(shutil.copyfile(file, folder / file.name)) for file in files]


def test_a_stale_log_hides_no_records(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    path = Path(store.path)
    write_all(store, *texts("tea", 0, 100))
    stale = saved(tmp_path / "stale", log_of(path))
    write_all(store, *texts("tea", 100, 400))
    put_back(store, *stale)

    salvaged = salvage_store(path, empty=False)

    assert salvaged.rows["records"] == len(names_in(tmp_path)) == 400
    assert salvaged.kept is not None and log_of(salvaged.kept).exists()


def test_the_log_of_another_store_is_left_out(tmp_path: Path) -> None:
    other = make_store(tmp_path / "other")
    write_all(other, *texts("foreign", 0, 200))
    foreign = saved(tmp_path / "foreign", log_of(Path(other.path)))
    other.close()
    store = make_store(tmp_path)
    path = Path(store.path)
    write_all(store, *texts("tea", 0, 100))
    put_back(store, *foreign)

    salvaged = salvage_store(path, empty=False)

    assert names_in(tmp_path) == {f"tea {number}" for number in range(100)}
    assert salvaged.notes == ["memories.db-wal has records of another store only, and was not used"]


def test_deleted_records_of_a_damaged_file_stay_deleted(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    guids = write_all(store, *texts("tea", 0, 200))
    store.close()
    store = make_store(tmp_path)
    write_all(store, *texts("late", 0, 20))
    with store.transaction() as tx:
        perform(tx, "records.delete", guid=guids[0])
        perform(tx, "records.erase", guids=[guids[1]])
    path = Path(store.path)
    crashed = saved(tmp_path / "crashed", path, log_of(path))
    middle = crashed[0].stat().st_size // 2 // PAGE * PAGE
    flip_bytes(crashed[0], middle, middle + 5 * PAGE, 500)
    put_back(store, *crashed)

    salvage_store(path, empty=False)

    names = names_in(tmp_path)
    assert not names & {"tea 0", "tea 1"}
    assert {f"late {number}" for number in range(20)} < names and len(names) > 120


def test_a_file_without_readable_pages_names_the_ways_out(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.close()
    flip_bytes(Path(store.path), 0, 100, 50)

    with pytest.raises(StoreBroken) as refused:
        salvage_store(Path(store.path), empty=False)

    assert "memrelay restore" in str(refused.value) and "memories.db-wal" in str(refused.value)
    assert "`memrelay salvage PIPELINE --empty`" in str(refused.value)


@pytest.mark.slow
def test_a_file_cut_to_half_is_salvaged_and_a_scrub_names_its_damage(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *texts("tea", 0, 1000))
    store.close()
    path = Path(store.path)
    os.truncate(path, path.stat().st_size // 2)

    with (
        pytest.raises(StoreDamaged, match="disk image is malformed"),
        temporary_copy(path, tmp_path, FOR_SCRUB),
    ):
        pass
    salvage_store(path, empty=False)

    assert len(names_in(tmp_path)) > 200

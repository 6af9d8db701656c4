"""Commits are counted, so that a store with fewer commits than the bus has recorded is detected."""

from pathlib import Path

import pytest

from memrelay.memory.engine.connection import lost_commits
from memrelay.memory.engine.damage import note_of
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.errors import StoreDamaged
from memrelay.worker.run.busy_retry import run_guarded
from tests.memory.builders import MEMORY_ID, make_store, write_all


@pytest.mark.parametrize(
    ("recorded", "found", "lost"),
    [
        ("", ":0", 0),
        (":5", ":5", 0),
        (":5", ":9", 0),
        (":5", ":3", 2),
        (":5", ":0", 5),
        ("ab:7", "ab:4", 3),
        (":500", "ab:3", 0),
        ("ab:7", "cd:1", 0),
        ("ab:7", ":0", 7),
        ("ab:7", ":9", 7),
    ],
)
def test_lost_commits_are_counted_unless_a_restore_discarded_them(
    recorded: str, found: str, lost: int
) -> None:
    assert lost_commits(recorded, found) == lost


def test_commits_are_counted_and_rollbacks_and_takeovers_are_not(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    write_all(store, "one")
    store.begin()
    store.rollback()
    store.take_over(7)
    write_all(store, "two")

    assert store.commits.mark == ":2"
    store.close()
    assert make_store(tmp_path).commits.mark == ":2"


def test_a_store_with_lost_commits_gets_a_note_and_stays_closed(
    tmp_path: Path,
) -> None:
    stores = OpenStores(tmp_path, 10)
    write_all(stores.get(MEMORY_ID), "tea")

    for _ in range(2):
        with pytest.raises(StoreDamaged, match="the last 4 commits are lost"):
            stores.check_commits([(MEMORY_ID, ":5")])

    path = tmp_path / f"{MEMORY_ID}.db"
    assert "the last 4 commits are lost" in note_of(path).read_text()
    with pytest.raises(StoreDamaged):
        stores.get(MEMORY_ID)


def test_a_repaired_file_is_served_and_its_note_is_removed(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "tea")
    store.close()
    path = Path(store.path)
    whole = path.read_bytes()
    path.write_bytes(whole[:8192])
    with pytest.raises(StoreDamaged):
        make_store(tmp_path)

    path.write_bytes(whole)
    make_store(tmp_path).close()

    assert not note_of(path).exists()


def test_a_damaged_store_does_not_mark_a_sound_one(
    tmp_path: Path,
) -> None:
    damaged, sound = "instances/a/damaged", "instances/a/sound"
    store = make_store(tmp_path, damaged)
    write_all(store, "tea")
    store.close()
    Path(store.path).write_bytes(Path(store.path).read_bytes()[:8192])
    stores = OpenStores(tmp_path, 10)
    write_all(stores.get(sound), "tea")

    with pytest.raises(StoreDamaged):
        run_guarded(stores, lambda stores: stores.get(damaged), [damaged, sound])

    assert note_of(tmp_path / f"{damaged}.db").exists()
    assert not note_of(tmp_path / f"{sound}.db").exists()
    assert stores.probe() == {}

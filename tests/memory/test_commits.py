"""Commits are counted, and a store that has fewer than the bus was told of is found out."""

from pathlib import Path

import pytest

from memrelay.memory.errors import StoreDamaged
from memrelay.memory.sqlite.connection import lost_commits
from memrelay.memory.sqlite.damage import note_of
from memrelay.memory.stores import OpenStores
from memrelay.worker.run.busy_retry import run_guarded
from tests.memory.builders import MEMORY_ID, make_store, write_all


@pytest.mark.parametrize(
    ("told", "found", "lost"),
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
def test_what_was_told_is_missed_unless_a_restore_gave_it_up(
    told: str, found: str, lost: int
) -> None:
    assert lost_commits(told, found) == lost


def test_each_commit_counts_and_what_is_undone_or_taken_over_does_not(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    write_all(store, "one")
    store.begin()
    store.rollback()
    store.take_over(7)
    write_all(store, "two")

    assert store.commits.mark == ":2"
    store.close()
    assert make_store(tmp_path).commits.mark == ":2"


def test_a_store_that_lacks_commits_is_left_with_a_note_and_not_opened_again(
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


def test_a_whole_file_in_the_place_of_a_damaged_one_is_checked_and_served(tmp_path: Path) -> None:
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


def test_a_sound_store_is_not_blamed_for_one_beside_it_that_cannot_be_opened(
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

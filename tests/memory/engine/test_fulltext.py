"""Segments of the full-text indexes are merged a few pages at a time, without any other change."""

from pathlib import Path

import pytest

from memrelay.memory.engine.fulltext import FEW
from memrelay.memory.engine.store import Store
from memrelay.worker.background.index_merge import merge_step
from tests.memory.builders import assert_sound, find, make_store, write_all

WORDS = ["tea", "userName", "kettle", "green tea", "camelCase tea", "a pot"]


def count_segments(store: Store, index: str = "records_fts") -> int:
    return int(store._connection.execute(f"SELECT count(DISTINCT segid) FROM {index}_idx").get)


def search_all(store: Store) -> list[list[tuple[str, float]]]:
    with store.transaction() as tx:
        return [
            [(record.guid, record.score) for record in find(tx, query)]
            for query in (*WORDS, "name", "nothing")
        ]


def write_segments(store: Store, commits: int, texts: int = 1) -> None:
    """Write one segment per commit."""
    for number in range(commits):
        write_all(
            store,
            *[f"{WORDS[(number + at) % len(WORDS)]} number {number} {at}" for at in range(texts)],
        )


def merge_all(store: Store) -> int:
    """Merge until nothing is left. Return the number of steps."""
    steps = 0
    while merge_step(store):
        steps += 1
        assert steps < 1000
    return steps


def test_many_segments_are_merged_into_one_without_changing_a_search(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_segments(store, 15)
    before = search_all(store)
    assert (count_segments(store) > FEW, count_segments(store, "parts_fts") > FEW) == (True, True)

    merge_all(store)

    assert (count_segments(store), count_segments(store, "parts_fts")) == (1, 1)
    assert search_all(store) == before
    store.close()
    assert_sound(tmp_path / f"{store.memory_id}.db")


def test_a_large_index_is_merged_in_steps_that_allow_writes_between_them(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for number in range(2 * FEW):
        write_all(store, " ".join(f"word{number}x{at}" for at in range(20_000)))

    assert merge_step(store) and merge_step(store)
    write_segments(store, 1)
    steps = merge_all(store)

    assert steps > 3
    assert count_segments(store) <= 2
    with store.transaction() as tx:
        assert [len(find(tx, query)) for query in ("word1x1", "word7x19999", "tea")] == [1, 1, 1]
    store.close()
    assert_sound(tmp_path / f"{store.memory_id}.db")


def test_few_segments_are_not_merged(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_segments(store, FEW)

    assert (merge_step(store), count_segments(store)) == (False, FEW)


def test_small_segments_next_to_a_large_one_are_not_merged(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *[f"{at} green tea" for at in range(20_000)])
    write_segments(store, FEW)
    merge_all(store)

    write_segments(store, 2 * FEW)

    assert (merge_step(store), count_segments(store)) == (False, 2 * FEW + 1)


def test_a_rolled_back_merge_step_is_repeated(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_segments(store, 2 * FEW)
    before = search_all(store)

    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        tx.segments.merge(tx.segments.to_merge())
        _ = 1 / 0
    merge_all(store)

    assert count_segments(store) == 1
    assert search_all(store) == before


def test_an_empty_store_has_nothing_to_merge(tmp_path: Path) -> None:
    assert not merge_step(make_store(tmp_path))

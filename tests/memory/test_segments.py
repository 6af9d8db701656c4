"""The segments of the full-text indexes: merged a few pages at a time, with nothing else changed by
it."""

from pathlib import Path

import pytest

from memrelay.memory.sqlite.fulltext import FEW
from memrelay.memory.sqlite.store import Store
from memrelay.worker.background.index_merge import merge_some
from tests.memory.builders import assert_sound, find, make_store, write_all

WORDS = ["tea", "userName", "kettle", "green tea", "camelCase tea", "a pot"]


def segments(store: Store, index: str = "records_fts") -> int:
    return int(store._connection.execute(f"SELECT count(DISTINCT segid) FROM {index}_idx").get)


def answers(store: Store) -> list[list[tuple[str, float]]]:
    with store.transaction() as tx:
        return [
            [(record.guid, record.score) for record in find(tx, query)]
            for query in (*WORDS, "name", "nothing")
        ]


def write_apart(store: Store, commits: int, texts: int = 1) -> None:
    """A segment for each commit."""
    for number in range(commits):
        write_all(
            store,
            *[f"{WORDS[(number + at) % len(WORDS)]} number {number} {at}" for at in range(texts)],
        )


def merge_all(store: Store) -> int:
    """How many steps it took."""
    steps = 0
    while merge_some(store):
        steps += 1
        assert steps < 1000
    return steps


def test_many_segments_become_one_and_every_search_answers_as_before(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_apart(store, 15)
    before = answers(store)
    assert (segments(store) > FEW, segments(store, "parts_fts") > FEW) == (True, True)

    merge_all(store)

    assert (segments(store), segments(store, "parts_fts")) == (1, 1)
    assert answers(store) == before
    store.close()
    assert_sound(tmp_path / f"{store.memory_id}.db")


def test_a_large_index_is_merged_in_several_steps_between_which_is_written(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for number in range(2 * FEW):
        write_all(store, " ".join(f"word{number}x{at}" for at in range(20_000)))

    assert merge_some(store) and merge_some(store)
    write_apart(store, 1)
    steps = merge_all(store)

    assert steps > 3
    assert segments(store) <= 2
    with store.transaction() as tx:
        assert [len(find(tx, query)) for query in ("word1x1", "word7x19999", "tea")] == [1, 1, 1]
    store.close()
    assert_sound(tmp_path / f"{store.memory_id}.db")


def test_few_are_left_alone(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_apart(store, FEW)

    assert (merge_some(store), segments(store)) == (False, FEW)


def test_little_beside_much_is_left_alone(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *[f"{at} green tea" for at in range(20_000)])
    write_apart(store, FEW)
    merge_all(store)

    write_apart(store, 2 * FEW)

    assert (merge_some(store), segments(store)) == (False, 2 * FEW + 1)


def test_a_step_that_was_undone_is_done_again(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_apart(store, 2 * FEW)
    before = answers(store)

    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        tx.segments.merge(tx.segments.to_merge())
        _ = 1 / 0
    merge_all(store)

    assert segments(store) == 1
    assert answers(store) == before


def test_an_empty_store_has_nothing_to_merge(tmp_path: Path) -> None:
    assert not merge_some(make_store(tmp_path))

"""A search that exceeds its time limit is an error, and the store remains usable."""

from pathlib import Path

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.engine.time_limit import INSTRUCTIONS
from memrelay.memory.errors import SearchTooLong
from tests.memory.builders import contents, find, make_store, perform, write_all

QUERIES = {"fts": "te* cu*", "hybrid": "te* cu*", "filters": "kind:observation -rain"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store in which every search needs more steps than one check of the time."""
    store = make_store(tmp_path)
    write_all(store, *[f"tea{number} cup{number}" for number in range(INSTRUCTIONS)])
    return store


@pytest.mark.parametrize("kind", QUERIES)
def test_a_search_beyond_its_time_is_an_error(store: Store, kind: str) -> None:
    mode = "hybrid" if kind == "hybrid" else "fts"
    assert find(store, QUERIES[kind], mode=mode)
    store.time_limit.seconds = 0.0

    with pytest.raises(SearchTooLong, match=r"longer than 0 s.*use fewer words"):
        find(store, QUERIES[kind], mode=mode)

    store.time_limit.seconds = 10.0
    assert find(store, QUERIES[kind], mode=mode)


def test_a_transaction_continues_after_a_search_beyond_its_time(store: Store) -> None:
    with store.transaction() as tx:
        perform(tx, "records.create", content="before")
        find(tx, "before")
        store.time_limit.seconds = 0.0
        with pytest.raises(SearchTooLong):
            perform(tx, "records.search", query="te* cu*")
        perform(tx, "records.create", content="after")

    store.time_limit.seconds = 10.0
    assert contents(find(store, "before")) == ["before"]
    assert contents(find(store, "after")) == ["after"]


def test_texts_of_a_transaction_are_indexed_before_the_time_begins(store: Store) -> None:
    words = " ".join(f"wordNumber{number}" for number in range(20 * INSTRUCTIONS))
    store.time_limit.seconds = 0.0

    with store.transaction() as tx:
        perform(tx, "records.create", content=words)
        with pytest.raises(SearchTooLong):
            perform(tx, "records.search", query="te* cu*")

    store.time_limit.seconds = 10.0
    assert len(find(store, "wordNumber7")) == 1

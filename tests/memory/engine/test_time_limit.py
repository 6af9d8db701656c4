"""A search that exceeds its time limit is an error, and the store remains usable."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.engine.time_limit import INSTRUCTIONS
from memrelay.memory.errors import SearchTooLong
from tests.memory.builders import contents, find, make_store, perform, write_all
from tests.support.child import CHECKOUT

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


def test_the_time_of_other_programs_does_not_count(store: Store) -> None:
    store.time_limit.seconds = 0.3

    with store.time_limit.bounded():
        time.sleep(0.5)
        assert find(store, QUERIES["fts"])


FIRST_SEARCH = """
import sys
from pathlib import Path
from tests.memory.builders import find, make_store

store = make_store(Path(sys.argv[1]))
store.time_limit.seconds = 0.06
assert "numpy" not in sys.modules
assert find(store, "te* cu*", mode="hybrid")
assert "numpy" in sys.modules
"""


def test_the_libraries_that_the_first_search_loads_do_not_count(
    store: Store, tmp_path: Path
) -> None:
    store.close()

    arguments = [sys.executable, "-c", FIRST_SEARCH, str(tmp_path)]
    done = subprocess.run(arguments, cwd=CHECKOUT, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


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

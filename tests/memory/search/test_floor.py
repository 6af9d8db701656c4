"""How much of a query one window must hold, so that random words find nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.search.search import SearchInput, search_explained
from memrelay.memory.search.text_retriever import LARGE_STORE
from tests.memory.builders import PLENTY, make_store, write_all

WORDS = ("glacier", "invoice", "lobster", "sonata")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def search(store: Store, query: str) -> tuple[list[str], float, float]:
    """Return (contents, the share of the query in one window, the required share)."""
    with store.transaction() as tx:
        found, explanation = search_explained(tx, SearchInput(query, PLENTY, mode="hybrid"))
    held, required = explanation.coverage, explanation.least_coverage
    assert held is not None and required is not None
    return [record.content for record in found], held, required


def test_words_of_different_records_find_them_in_a_small_store_only(store: Store) -> None:
    write_all(store, *(f"a {word}" for word in WORDS))
    small, held, required = search(store, " ".join(WORDS))
    write_all(store, *(f"note {number}" for number in range(LARGE_STORE)))
    large, _, required_of_large = search(store, " ".join(WORDS))

    assert len(small) == len(WORDS) and held == pytest.approx(0.25)
    assert large == [] and (required, required_of_large) == (0.24, pytest.approx(0.38, abs=0.01))


def test_two_rare_words_of_a_long_query_are_enough(store: Store) -> None:
    """They hardly meet by chance."""
    write_all(store, *(f"note {number}" for number in range(LARGE_STORE)))
    write_all(store, "the glacier and the invoice", "a lobster")

    words = "glacier invoice plorfish blorp zzxqw fjord quartz harbor violin tundra"

    found, held, required = search(store, words)
    assert found[:1] == ["the glacier and the invoice"] and required < held < 0.24
    assert search(store, words.replace("glacier", "ember").replace("invoice", "lobster"))[0] == []


def test_words_of_one_window_are_found_in_a_large_store(store: Store) -> None:
    write_all(store, *(f"note {number}" for number in range(LARGE_STORE)))
    write_all(store, "the glacier", "yes", "an invoice", source="Ann", thread="t")

    found, held, _ = search(store, "glacier invoice lobster sonata")

    assert found[0] in ("the glacier", "an invoice") and held > 0.4


def test_a_question_needs_less(store: Store) -> None:
    write_all(store, *(f"note {number}" for number in range(LARGE_STORE)), "a lobster")

    assert search(store, "which lobster should I compare with a plorfish zzxq blorp")[2] == 0.15
    assert search(store, "what is the lobster near the zzxqw plorf blorp")[0] == ["a lobster"]
    assert search(store, "lobster zzxqw plorf blorp")[0] == []


def test_words_of_a_query_that_no_record_holds_count(store: Store) -> None:
    write_all(store, "a lobster")

    assert search(store, "zzxqw plorf")[:2] == ([], 0.0)

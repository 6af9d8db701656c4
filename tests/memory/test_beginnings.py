"""A word that ends with a star, where a search ranks: all that begin like it, and bounded where
they are very many."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memrelay.memory.operations.records_search import SearchInput, search, search_explained
from memrelay.memory.search import terms
from memrelay.memory.search.explain import CUT
from memrelay.memory.sqlite.store import Store
from memrelay.memory.sqlite.vocabulary import Vocabulary
from tests.memory.builders import PLENTY, fresh_store, make_store, write_all

WORDS = ("tea", "teapot", "Ten", "toast", "userTen", "te3", "thé", "milk")
Texts = st.lists(
    st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join).filter(bool), min_size=1, max_size=12
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


@settings(max_examples=30)
@given(texts=Texts, prefix=st.sampled_from(["t", "te", "tea", "th", "u", "m", "x"]))
def test_they_are_what_the_index_finds_for_a_star(texts: list[str], prefix: str) -> None:
    with fresh_store() as store:
        write_all(store, *texts)
        with store.transaction() as tx:
            tx.records.complete()
            vocabulary = Vocabulary(tx._connection)
            vocabulary.open()

            rows, whole = vocabulary.begun(prefix, 1000)

            assert whole and np.array_equal(rows, vocabulary.matching(f'"{prefix}" *'))


def test_of_very_many_the_first_by_the_alphabet_are_found_and_it_is_told(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terms, "MAX_PLACES", 3)
    write_all(store, "teb", "tea", "ted", "tec milk", "tee")
    with store.transaction() as tx:
        found, told = search_explained(tx, SearchInput("te*", PLENTY, mode="hybrid"))

    assert {record.content for record in found} == {"tea", "teb", "tec milk"}
    assert CUT.format("te*") in told.notes


def test_beside_a_word_that_says_more_they_are_left_out_as_too_common(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terms, "MAX_PLACES", 3)
    write_all(store, "teb", "tea", "ted", "tec milk", "tee")
    with store.transaction() as tx:
        found, told = search_explained(tx, SearchInput("te* milk", PLENTY, mode="hybrid"))
        every = search(tx, SearchInput("te*", PLENTY))

    assert [record.content for record in found] == ["tec milk"] and not any(
        "begin like" in note for note in told.notes
    )
    assert {term.term: term.state for term in told.terms} == {"te*": "too common", "milk": "wanted"}
    assert len(every) == 5  # where all must be there, all are

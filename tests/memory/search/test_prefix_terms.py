"""A prefix (`word*`) in a ranked search finds all words that begin with it, up to a limit."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memrelay.memory.engine.store import Store
from memrelay.memory.engine.vocabulary import Vocabulary
from memrelay.memory.search import terms
from memrelay.memory.search.explain import CUT
from memrelay.memory.search.search import SearchInput, search, search_explained
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
def test_a_prefix_finds_the_same_rows_as_the_index(texts: list[str], prefix: str) -> None:
    with fresh_store() as store:
        write_all(store, *texts)
        with store.transaction() as tx:
            tx.records.complete()
            vocabulary = Vocabulary(tx._connection)
            vocabulary.open()

            rows, whole = vocabulary.begun(prefix, 1000)

            assert whole and np.array_equal(rows, vocabulary.matching(f'"{prefix}" *'))


def test_a_very_common_prefix_is_cut_alphabetically_with_a_note(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terms, "MAX_PLACES", 3)
    write_all(store, "teb", "tea", "ted", "tec milk", "tee")
    with store.transaction() as tx:
        found, explanation = search_explained(tx, SearchInput("te*", PLENTY, mode="hybrid"))

    assert {record.content for record in found} == {"tea", "teb", "tec milk"}
    assert CUT.format("te*") in explanation.notes


def test_a_very_common_prefix_is_dropped_next_to_a_rarer_word(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terms, "MAX_PLACES", 3)
    write_all(store, "teb", "tea", "ted", "tec milk", "tee")
    with store.transaction() as tx:
        found, explanation = search_explained(tx, SearchInput("te* milk", PLENTY, mode="hybrid"))
        all_found = search(tx, SearchInput("te*", PLENTY))

    assert [record.content for record in found] == ["tec milk"] and not any(
        "begin like" in note for note in explanation.notes
    )
    assert {term.term: term.state for term in explanation.terms} == {
        "te*": "too common",
        "milk": "wanted",
    }
    assert len(all_found) == 5  # mode fts has no limit

"""Postings of a word: cached within a limit, and counted again after a change."""

from pathlib import Path

import pytest

from memrelay.memory.engine import postings
from memrelay.memory.engine.vocabulary import Vocabulary
from tests.memory.builders import make_store, write_all
from tests.memory.search.test_ranker import found

WORDS = [f"word{letter}" for letter in "abcdefgh"]


def test_cached_postings_equal_fresh_ones_and_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(tmp_path)
    write_all(store, *[" ".join(WORDS[at % 3 :]) + " tea tea" for at in range(300)])
    monkeypatch.setattr(
        postings, "LEAST_BYTES", 12 * 900
    )  # room for three words that all records contain
    with store.transaction() as tx:
        cached = Vocabulary(tx._connection)
        cached.open()
        for word in [*WORDS, *WORDS[::-1], "tea", "none", "tea"]:
            fresh = Vocabulary(tx._connection).postings(word)
            assert [one.tolist() for one in cached.postings(word)] == [
                one.tolist() for one in fresh
            ]
            assert cached.nbytes <= 12 * 900

        cached.drop()

        assert cached.nbytes == 0


def test_a_word_searched_before_is_found_in_a_later_record(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "green tea")
    assert found(store, "tea") == ["green tea"]

    write_all(store, "black tea")

    assert sorted(found(store, "tea")) == ["black tea", "green tea"]

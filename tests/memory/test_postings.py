"""Which records hold a word: kept for the next search within a bound, and counted again after a
change."""

from pathlib import Path

import pytest

from memrelay.memory.sqlite import postings
from memrelay.memory.sqlite.vocabulary import Vocabulary
from tests.memory.builders import make_store, write_all
from tests.memory.test_recall import found

WORDS = [f"word{letter}" for letter in "abcdefgh"]


def test_what_is_kept_is_what_would_be_read_again_and_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(tmp_path)
    write_all(store, *[" ".join(WORDS[at % 3 :]) + " tea tea" for at in range(300)])
    monkeypatch.setattr(postings, "LEAST_BYTES", 12 * 900)  # of three words that all records hold
    with store.transaction() as tx:
        kept = Vocabulary(tx._connection)
        kept.open()
        for word in [*WORDS, *WORDS[::-1], "tea", "none", "tea"]:
            fresh = Vocabulary(tx._connection).postings(word)
            assert [one.tolist() for one in kept.postings(word)] == [one.tolist() for one in fresh]
            assert kept.nbytes <= 12 * 900

        kept.drop()

        assert kept.nbytes == 0


def test_a_word_that_was_asked_for_is_found_in_what_is_written_later(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "green tea")
    assert found(store, "tea") == ["green tea"]

    write_all(store, "black tea")

    assert sorted(found(store, "tea")) == ["black tea", "green tea"]

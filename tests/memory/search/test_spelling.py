"""Spelling suggestions from the words of a store: few edits, the most common word first, bounded in
a large store."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.engine.store import Store
from memrelay.memory.engine.vocabulary import Vocabulary
from memrelay.memory.search.spelling import _one_edit, _within_two, nearest_word
from tests.memory.builders import make_store, write_all

letters = st.text("abc", max_size=6)
NONE = np.empty(0, np.int64)  # rows of expired records


def nearest_in(store: Store, word: str) -> str | None:
    with store.transaction() as tx:
        vocabulary = Vocabulary(tx._connection)
        vocabulary.open()
        return nearest_word(word, vocabulary, NONE)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("meetng", "meeting"),
        ("emeting", "meeting"),
        ("beeting", "meeting"),
        ("meetinggg", "meeting"),
        ("tae", "tea"),
        ("quarterli", "quarterly"),
        ("quartelry", "quarterly"),
        ("qarterly", "quarterly"),
        ("москвы", "москва"),
        ("xx", None),
        ("zzxqwv", None),
        ("x" * 33, None),
        ("東京都", None),
        ("v12", None),
    ],
)
def test_a_typo_gets_a_suggestion(tmp_path: Path, word: str, expected: str | None) -> None:
    store = make_store(tmp_path)
    write_all(store, "the meeting on quarterly figures with tea in Москва 東京")

    assert nearest_in(store, word) == expected


def test_among_equally_near_words_the_most_common_is_suggested(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "cart", "card", "card")

    assert nearest_in(store, "carx") == "card"


@given(letters, st.data())
def test_two_edits_equal_one_edit_twice(word: str, data: st.DataObject) -> None:
    once = data.draw(st.sampled_from(sorted({word, *_one_edit(word)} - {""}) or ["a"]))
    twice = data.draw(st.sampled_from(sorted({once, *_one_edit(once)} - {""})))

    assert _within_two(once, twice) and _within_two(twice, once)
    assert _within_two(word, twice) or edits_overlap(word, once, twice)


def edits_overlap(word: str, once: str, twice: str) -> bool:
    """Return whether the second edit may lie inside the swap of the first. The distance counts that
    as a third edit."""
    return sorted(word) == sorted(once) != sorted(twice) or sorted(once) == sorted(twice)

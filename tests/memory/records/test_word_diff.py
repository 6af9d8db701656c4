"""The comparison of two texts by words."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.records.word_diff import Piece, compare_words

texts = st.lists(st.sampled_from(["tea", "milk", " ", "\n", ",", "茶", "水"]), max_size=30).map(
    "".join
)


def shown(old: str, new: str) -> list[tuple[str, str]]:
    found = compare_words(old, new)
    assert found is not None and found.is_complete
    return [(piece.kind, piece.text) for piece in found.pieces]


@pytest.mark.parametrize(
    ("old", "new", "pieces"),
    [
        ("at 3pm", "at 4pm", [("same", "at "), ("deleted", "3pm"), ("added", "4pm")]),
        ("green tea", "black bag", [("deleted", "green tea"), ("added", "black bag")]),
        ("tea", "tea", [("same", "tea")]),
        ("", "tea", [("added", "tea")]),
        ("tea", "tea\n", [("same", "tea"), ("added", "↵\n")]),
        ("喝茶", "喝水", [("same", "喝"), ("deleted", "茶"), ("added", "水")]),
        ("a, b.", "a; b.", [("same", "a"), ("deleted", ","), ("added", ";"), ("same", " b.")]),
    ],
)
def test_changed_words_are_marked(old: str, new: str, pieces: list[tuple[str, str]]) -> None:
    assert shown(old, new) == pieces


@given(texts, texts)
def test_the_parts_make_up_both_texts(old: str, new: str) -> None:
    pieces = [Piece(*one) for one in shown(old, new)]

    for sort, text in (("deleted", old), ("added", new)):
        parts = [piece.text for piece in pieces if piece.kind in ("same", sort)]
        assert "".join(parts).replace("↵\n", "\n") == text
    assert all(one.kind != two.kind for one, two in pairwise(pieces))


def test_long_parts_without_a_change_are_left_out() -> None:
    words = " ".join(f"w{number}" for number in range(1000))

    pieces = shown(f"{words} old {words}", f"{words} new {words}")

    assert [sort for sort, _ in pieces] == ["gap", "same", "deleted", "added", "same", "gap"]
    assert pieces[0] == ("gap", "975") and len(pieces[1][1].split()) == 25


@pytest.mark.parametrize("vocabulary", [1, 7, 100, 3000])
def test_the_time_is_bounded(vocabulary: int) -> None:
    old, new = (
        " ".join(f"w{number * factor % 10_007 % vocabulary}" for number in range(9_999))
        for factor in (3, 7)
    )

    started = time.process_time()
    found = compare_words(old, new)

    assert found is not None and time.process_time() - started < 10
    assert sum(len(piece.text) for piece in found.pieces) < 60_000


def test_texts_with_too_many_words_are_not_compared() -> None:
    assert compare_words("tea " * 10_001, "tea " * 10_000) is None
    assert compare_words("x" * 400_001, "") is None
    assert compare_words("tea " * 10_000, "tea " * 10_000) is not None

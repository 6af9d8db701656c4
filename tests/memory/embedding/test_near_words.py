"""How near words are, by their table."""

from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.recall.word_signs import signs
from memrelay.memory.embedding.near_words import Floats, near_words, words_of


def nearness(ones: list[str], others: list[str]) -> Floats:
    return near_words().nearness(near_words().numbers(ones), near_words().numbers(others))


@pytest.mark.parametrize(
    ("word", "nearer", "farther"),
    [
        ("dog", "puppy", "table"),
        ("bought", "purchased", "painted"),
        ("paint", "painting", "beach"),
        ("beach", "coast", "pie"),
    ],
)
def test_what_means_much_the_same_is_near(word: str, nearer: str, farther: str) -> None:
    same, first, second = nearness([word], [word, nearer, farther])[0]

    assert same == 1 and 0.35 < first < 1 and second < 0.3


@pytest.mark.parametrize("word", ["", "ငါ", "snowmobiling", "x" * 101])
def test_what_is_no_word_of_the_table_is_near_to_itself_alone(word: str) -> None:
    found = nearness(["tea", word, "mobile"], [word, "tea", "snow"])

    assert found[0].tolist()[:2] == [0, 1] and found[1].tolist() == [1, 0, 0] and found[2, 0] == 0


def test_no_words_are_near_to_none() -> None:
    assert nearness([], ["tea"]).shape == (0, 1) and nearness(["tea", "qqq"], []).shape == (2, 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ann's café: GREEN tea!", ["ann", "s", "cafe", "green", "tea"]),
        ("a_b-c 3pm", ["a", "b", "c", "3pm"]),
        ("茶 tea", ["茶", "tea"]),
        ("?!", []),
        ("", []),
    ],
)
def test_the_words_of_a_text(text: str, words: list[str]) -> None:
    assert words_of(text) == words
    assert near_words().read(text).tolist() == near_words().numbers(words).tolist()


@given(
    st.lists(st.text()), st.lists(st.text() | st.sampled_from(("tea", "cup", "tee")), unique=True)
)
def test_any_words_are_from_no_to_full_nearness(ones: list[str], others: list[str]) -> None:
    found = nearness(ones, others)

    assert found.shape == (len(ones), len(others)) and ((found >= 0) & (found <= 1)).all()
    assert all(found[row, others.index(one)] == 1 for row, one in enumerate(ones) if one in others)


@pytest.mark.slow
def test_the_table_is_what_the_model_says() -> None:
    table = np.frombuffer(
        files("memrelay.memory.embedding").joinpath("word_signs.bin").read_bytes(), np.uint8
    ).reshape(-1, 48)

    made = signs()  # by another processor, what is nearly zero may have another sign

    assert (
        made.shape == table.shape and np.bitwise_count(made ^ table).sum() < 0.02 * table.size * 8
    )

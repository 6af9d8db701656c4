"""The nearness of words from the table in the package."""

from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.recall.word_signs import make_neighbors, make_signs
from memrelay.memory.search.embedding.near_words import Floats, near_words, words_of


def nearness(words: list[str], other_words: list[str]) -> Floats:
    return near_words().nearness(near_words().numbers(words), near_words().numbers(other_words))


@pytest.mark.parametrize(
    ("word", "nearer", "farther"),
    [
        ("dog", "puppy", "table"),
        ("bought", "purchased", "painted"),
        ("paint", "painting", "beach"),
        ("beach", "coast", "pie"),
    ],
)
def test_words_of_similar_meaning_are_near(word: str, nearer: str, farther: str) -> None:
    same, first, second = nearness([word], [word, nearer, farther])[0]

    assert same == 1 and 0.35 < first < 1 and second < 0.3


@pytest.mark.parametrize("word", ["", "ငါ", "snowmobiling", "x" * 101])
def test_a_word_outside_the_table_is_near_only_to_itself(word: str) -> None:
    found = nearness(["tea", word, "mobile"], [word, "tea", "snow"])

    assert found[0].tolist()[:2] == [0, 1] and found[1].tolist() == [1, 0, 0] and found[2, 0] == 0


def test_empty_word_lists_give_empty_matrices() -> None:
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
def test_a_text_is_split_into_lowercase_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words
    assert near_words().read(text).tolist() == near_words().numbers(words).tolist()


@given(
    st.lists(st.text()), st.lists(st.text() | st.sampled_from(("tea", "cup", "tee")), unique=True)
)
def test_nearness_is_between_0_and_1(words: list[str], other_words: list[str]) -> None:
    found = nearness(words, other_words)

    assert found.shape == (len(words), len(other_words)) and ((found >= 0) & (found <= 1)).all()
    assert all(
        found[row, other_words.index(one)] == 1
        for row, one in enumerate(words)
        if one in other_words
    )


@pytest.mark.parametrize(
    ("word", "neighbors"),
    [("dog", ["canine", "pet"]), ("children", ["kids"]), ("tea", []), ("zzxq", []), ("7", [])],
)
def test_neighbors_mean_nearly_the_same(word: str, neighbors: list[str]) -> None:
    assert near_words().neighbors(word) == neighbors


def test_words_of_the_language_are_known_in_their_usual_forms() -> None:
    asked = ["naps", "baking", "mother", "cinamon", "zzxq", ""]

    assert near_words().known(asked) == ["mother", "naps", "baking"]  # common words first


@pytest.mark.slow
def test_the_neighbors_match_the_table() -> None:
    folder = files("memrelay.memory.search.embedding")
    signs = np.frombuffer(folder.joinpath("word_signs.bin").read_bytes(), np.uint8)

    made = make_neighbors(signs.reshape(-1, 48))

    assert made.tobytes() == folder.joinpath("word_neighbors.bin").read_bytes()


@pytest.mark.slow
def test_the_table_matches_the_model() -> None:
    table = np.frombuffer(
        files("memrelay.memory.search.embedding").joinpath("word_signs.bin").read_bytes(), np.uint8
    ).reshape(-1, 48)

    # on another processor, values near zero may have another sign
    made = make_signs()

    assert (
        made.shape == table.shape and np.bitwise_count(made ^ table).sum() < 0.02 * table.size * 8
    )

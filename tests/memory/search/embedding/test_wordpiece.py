"""The WordPiece tokenizer agrees with the `tokenizers` library over all of Unicode."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from memrelay.memory.search.embedding import wordpiece
from memrelay.memory.search.embedding.wordpiece import MOST_CHARACTERS, WordPiece, words

PIECES = WordPiece()
# Planes 4 to 16 have no characters except tags, variation selectors and private use.
FIRST_UNASSIGNED = 0x40000


@cache
def library_tokenizer() -> Tokenizer:
    """Return the library's tokenizer of the same model, without special tokens."""
    vocabulary = Path(wordpiece.__file__).with_name("vocab.txt")
    model = models.WordPiece.from_file(
        str(vocabulary), unk_token="[UNK]", max_input_chars_per_word=100
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def matches_library(text: str) -> bool:
    return (
        PIECES.encode(text, 1 << 20)[1:-1]
        == library_tokenizer().encode(text, add_special_tokens=False).ids
    )


def find_differing_characters(starts: Iterable[int]) -> frozenset[str]:
    """Return the characters that the tokenizers treat differently, in blocks of 256 characters."""
    blocks = [
        [f"a{chr(code)}b" for code in range(first, first + 256)]
        for first in starts
        if not 0xD800 <= first < 0xE000
    ]
    suspect = (text for block in blocks if not matches_library(" ".join(block)) for text in block)
    return frozenset(text[1] for text in suspect if not matches_library(text))


@cache
def characters_of_another_unicode() -> frozenset[str]:
    """Return the characters that the library's older Unicode tables classify differently."""
    return find_differing_characters(range(0, FIRST_UNASSIGNED, 256))


def test_only_characters_newer_than_the_librarys_unicode_differ() -> None:
    others = characters_of_another_unicode()

    assert len(others) < 1500
    assert min(others) > "\u0590"  # no Latin, Greek or Cyrillic character


@pytest.mark.slow
def test_all_other_planes_get_the_librarys_pieces() -> None:
    assert find_differing_characters(range(FIRST_UNASSIGNED, 0x110000, 256)) == frozenset()


@given(st.text())
def test_any_text_gets_the_librarys_pieces(text: str) -> None:
    known = "".join(char for char in text if char not in characters_of_another_unicode())

    assert matches_library(known)


WORDS = [
    "unaffable",
    "Zürich",
    "naïve",
    "İstanbul",
    "user_name",
    "v1.2.3",
    "北京",
    "ǅ",
    "ﬁ",
    "\u1e9b\u0323",
    "#hash",
    "😀",
    "x" * 101,
]


@given(
    st.lists(
        st.sampled_from(
            [*WORDS, "\u0000", "\u200b", "\u00a0", "\t", "[CLS]", "##ing", "\ufffd", "é\u0301"]
        )
    )
)
def test_words_of_all_kinds_get_the_librarys_pieces(parts: list[str]) -> None:
    assert matches_library("".join(parts))
    assert matches_library(" ".join(parts))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The meeting's at 3PM!", ["the", "meeting", "'", "s", "at", "3pm", "!"]),
        ("Ünïcödé", ["unicode"]),
        ("東京tower", ["東", "京", "tower"]),
        ("", []),
    ],
)
def test_a_text_is_split_into_words(text: str, found: list[str]) -> None:
    assert words(text) == found


def test_the_spelling_of_a_model_token_is_plain_text() -> None:
    begin, *spelt, end = PIECES.encode("[CLS] [SEP]", 256)

    assert begin not in spelt
    assert end not in spelt


def test_a_long_text_is_truncated_at_the_end() -> None:
    short, long = PIECES.encode("tea " * 254, 256), PIECES.encode("tea " * 1_000_000, 256)

    assert short == long
    assert len(long) == 256


def test_characters_beyond_the_limit_are_ignored() -> None:
    assert words("a" * 10 * MOST_CHARACTERS) == ["a" * MOST_CHARACTERS]

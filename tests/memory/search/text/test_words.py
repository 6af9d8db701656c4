"""Tokens as in the full-text index, and the parts of words that are indexed in addition."""

import re

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memrelay.memory.search.text.emoji import emoji_words
from memrelay.memory.search.text.words import (
    _ASCII_PLACES,
    BREAK,
    _has_ascii_places,
    in_letters,
    parts_of,
    taken_apart,
    tokens,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
WORDY = st.text("aBé日のไ้가9_-. ﾊﾞＡｂ３", max_size=30)
index = apsw.Connection(":memory:")
index.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize = 'unicode61 remove_diacritics 2')")
index.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, instance)")


def index_tokens(text: str) -> list[str]:
    index.execute("DELETE FROM t")
    index.execute("INSERT INTO t(x) VALUES (?)", (text,))
    return [term for (term,) in index.execute("SELECT term FROM v ORDER BY offset")]


def test_words_after_escapes_of_json_are_parts() -> None:
    parts = parts_of('{"body": "first\\nsecond here\\r\\n\\tÜbung userName\\\\nthird"}')

    assert parts is not None
    assert {"second", "ubung", "user", "name"} <= set(tokens(parts))
    assert parts_of("a \\ b") is None


@given(TEXTS)
def test_tokens_equal_those_of_the_index(text: str) -> None:
    assert tokens(text) == index_tokens(text)


@example("0.000")
@given(st.text("aBC09_.,' -\x00\x7f", max_size=12) | st.text(st.characters(max_codepoint=127)))
def test_the_character_classes_predict_whether_a_word_is_split(text: str) -> None:
    is_split = _ASCII_PLACES.search(text) is not None
    may_be_grouped = re.search(r"[0-9][,.'][0-9]{3}(?![0-9])", text) is not None
    assert _has_ascii_places(text) == (is_split or may_be_grouped)


# Planes 4 to 16 have no characters except tags, variation selectors and private use.
@pytest.mark.parametrize(
    ("first", "end"), [(0, 0x40000), pytest.param(0x40000, 0x110000, marks=pytest.mark.slow)]
)
def test_every_unicode_character_is_tokenized_as_in_the_index(first: int, end: int) -> None:
    everything = " ".join(
        f"a{chr(code)}b" for code in range(first, end) if not 0xD800 <= code < 0xE000
    )

    assert tokens(everything) == index_tokens(everything)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("", None),
        ("The meeting of 2026 is in ROOM 12, at user_name's; ask ada@example.com or v 1.2.3", None),
        ("Gräfin ÉCOLE Юлия “naïve” café... Dvořák ™ 1,2 1,0000", None),
        ("userName", ["user", "name"]),
        ("HTTPServer2", ["http", "server", "2"]),
        ("v1.2.3", ["v", "1", "2", "3"]),
        ("user_firstName", ["user", "first", "name"]),
        ("the userName of fooBar", ["user", "name", BREAK, "foo", "bar"]),
        ("GPT4 IDs and URLs", ["gpt", "4"]),
        ("éléphantRose ПриветМир", ["elephant", "rose", BREAK, "привет", "мир"]),
        ("3f9c2a7d1b 01a200a0-9980-7000-8018-9f7019b48c30", None),
        ("日", ["日"]),
        ("größeMax", ["grosse", "max", BREAK, "grossemax"]),
        (
            "userName\u3092fooBar2",
            ["user", "name", "を", "foo", "bar", "2", BREAK, "username", BREAK, "foobar", "2"],
        ),
        ("日本語とPythonで、書く now", ["日", "本", "語", "と", "python", "で", "書", "く", "now"]),
        ("น้ำ", ["น", "า"]),
        ("안녕 하세요", ["안", "녕", "하", "세", "요"]),
        ("ｶﾞｷ", ["ガ", "キ"]),
        ("\uff21\uff22 of \uff12\uff10", ["ab", "of", "20"]),  # full-width characters
    ],
)
def test_a_content_has_parts_if_the_index_keeps_a_word_whole(
    content: str, parts: list[str] | None
) -> None:
    found = parts_of(content)

    assert (
        found == parts
        if parts is None
        else tokens(found or "") == [part.casefold() for part in parts]
    )


@given(TEXTS | WORDY)
def test_a_query_is_split_like_a_content(text: str) -> None:
    text = "".join(char for char in text if not emoji_words(char))  # each is a query of its own
    content, query = parts_of(text), taken_apart(text)

    assert (content is None) == (query is None)
    if content is not None and query is not None:
        found = tokens(query)
        assert [
            part
            for part in tokens(content)
            if part not in [*found, BREAK] and part not in "".join(found)
        ] == []
    assert not in_letters(text) or content is not None


def test_the_parts_of_hostile_contents_are_bounded() -> None:
    for content in (
        "aB" * 500_000,
        "a1" * 500_000,
        "日" * 500_000,
        "A" * 1_000_000,
        "Aa.-@" * 200_000,
        "1" * 1_000_000,
    ):
        parts = parts_of(content)

        assert len(parts or "") <= 3 * len(content)

"""Queries for FTS5: each word quoted, none too many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.errors import Refused
from memory.query import MAX_WORDS, fts_query


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", ""),
        (" \t\n\x00 ", ""),
        ("- * ( ) ^ : \" '", ""),
        ("blue sky", '"blue" "sky"'),
        ('he said "tea"', '"he" "said" """tea"""'),
        ("user-name", '"user-name"'),
        ("a OR b", '"a" "OR" "b"'),
        ("tea tea", '"tea"'),
        ("a\x00b", '"a" "b"'),
        ("—", '"—"'),
    ],
)
def test_a_text_becomes_quoted_words(text: str, query: str) -> None:
    assert fts_query(text) == query


@given(st.text())
def test_quotes_are_always_balanced_and_nothing_stands_outside(text: str) -> None:
    query = fts_query(text)

    assert query.count('"') % 2 == 0
    assert set("".join(query.split('"')[::2])) <= {" "}


@pytest.mark.parametrize("glue", [" ", "-", "—"])
def test_the_most_words_are_taken_and_one_more_is_refused(glue: str) -> None:
    most = MAX_WORDS if glue != "—" else MAX_WORDS // 2
    words = [f"w{number}" for number in range(most + 1)]

    assert fts_query(glue.join(words[:-1]))
    with pytest.raises(Refused, match="words"):
        fts_query(glue.join(words))

"""Queries: words and a small syntax. Malformed syntax is treated as words."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.errors import Refused
from memrelay.memory.search.query import (
    MAX_CHARS,
    MAX_FILTERS,
    MAX_ITEMS,
    MAX_PREFIXES,
    MAX_WORDS,
    Query,
    match_all,
    parse,
)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", Query()),
        (" \t\n\x00 ", Query()),
        ('- * ( ) ^ : " \' -* ** "" -"" — ;', Query()),
        ("😀 ;", Query(words=("\U0010f600",))),
        ("sky 😀", Query(words=("sky",))),
        ("blue sky blue", Query(words=("blue", "sky"))),
        ("a OR b AND NOT NEAR(c", Query(words=("a", "OR", "b", "AND", "NOT", "NEAR(c"))),
        ("a\x00b", Query(words=("a", "b"))),
        ('the "green tea" now', Query(words=("the", "now"), phrases=("green tea",))),
        ('"tea""milk"sugar', Query(words=("sugar",), phrases=("tea", "milk"))),
        ('said"tea"', Query(words=('said"tea"',))),
        ('he said "tea', Query(words=("he", "said", '"tea'))),
        ("te* tea", Query(words=("tea",), prefixes=("te",))),
        (
            'te*a **te c++* "te* a-b*',
            Query(words=("te*a", "**te", "c++*", '"te*'), prefixes=("a-b",)),
        ),
        (
            'tea -milk -"brown sugar" -su*',
            Query(words=("tea",), excluded=('"milk"', '"brown sugar"', '"su" *')),
        ),
        ("tea --flag well-known", Query(words=("tea", "--flag", "well-known"))),
        ("-milk", Query(words=("-milk",))),
        ('-milk -"brown sugar"', Query(words=("-milk", '-"brown sugar"'))),
        ("kind:note -milk", Query(kinds=("note",), excluded=('"milk"',))),
        (
            "kind:a kind:b scope:x/y tag:1 tag:2",
            Query(kinds=("a", "b"), scopes=("x/y",), tags=("1", "2")),
        ),
        ('tag:"two words" scope:a:b', Query(tags=("two words",), scopes=("a:b",))),
        (
            'kind: tag:"" scope:"x -kind:note',
            Query(words=("kind:", 'tag:""', 'scope:"x', "-kind:note")),
        ),
        (
            "Kind:note source:x http://a.b/c 10:30",
            Query(words=("Kind:note", "source:x", "http://a.b/c", "10:30")),
        ),
        ("after:soon before:2026-02-30", Query(words=("after:soon", "before:2026-02-30"))),
        ("after:5 after:7 before:9 before:8", Query(after_ms=7, before_ms=8)),
        (
            "\u201cgreen tea\u201d? -\u201emilk\u201c tag:\u00abtwo words\u00bb",
            Query(phrases=("green tea",), excluded=('"milk"',), tags=("two words",)),
        ),
        (
            '5\u201d tag:"a \u201cb\u201d c" \u201cso',
            Query(words=("5\u201d", "\u201cso"), tags=("a \u201cb\u201d c",)),
        ),
        (
            "fix 9e63c11 1234567 deadbee 2bff0d -9e63c12",
            Query(
                words=("fix", "1234567", "deadbee", "2bff0d"),
                prefixes=("9e63c11",),
                excluded=('("9e63c12" OR "9 e 63 c 12")',),
            ),
        ),
        ("userName -fooBar", Query(words=("userName",), excluded=('("fooBar" OR "foo Bar")',))),
    ],
)
def test_a_query_is_parsed(text: str, query: Query) -> None:
    assert parse(text) == query


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:30Z", datetime(2026, 1, 31, 12, 30, tzinfo=UTC)),
        ("2026-01-31T12:30:15", datetime(2026, 1, 31, 12, 30, 15, tzinfo=UTC)),
        ("2026-01-31t12:30:15.250+02:00", datetime(2026, 1, 31, 10, 30, 15, 250_000, tzinfo=UTC)),
        ("2026-01-31T12:30:15.2491z", datetime(2026, 1, 31, 12, 30, 15, 250_000, tzinfo=UTC)),
        ("1769817600000", datetime(2026, 1, 31, tzinfo=UTC)),
        ("0", datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_time_is_a_date_a_datetime_or_unix_ms(text: str, moment: datetime) -> None:
    unix_ms = round(moment.timestamp() * 1000)

    assert parse(f"after:{text} before:{text}") == Query(after_ms=unix_ms, before_ms=unix_ms)


@pytest.mark.parametrize(
    "text", ["2026", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "1" * 18]
)
def test_extreme_times_are_accepted(text: str) -> None:
    assert parse(f"after:{text}").after_ms is not None


@pytest.mark.parametrize(
    "text", ["-5", "20260131T12", "2026-1-1", "2026-W01-1", "2026-01-31T25:00", "٣", "1" * 19]
)
def test_an_invalid_time_is_a_word(text: str) -> None:
    query = parse(f"after:{text}")

    assert query.words
    assert query.after_ms is None


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("", ""),
        ("kind:note -tea", ""),
        ("blue sky", '"blue" AND "sky"'),
        ('"blue sky" te* 5"x', '"5""x" AND "blue sky" AND "te" *'),
        ("tea -milk -su*", '("tea") NOT ("milk" OR "su" *)'),
        ("user-name", '"user-name"'),
        ("userName", '("userName" OR "user Name")'),
        ("userN*", '("userN" * OR "user N" *)'),
        ("日本", '"日 本"'),
        ('"hello 日本"', '"hello 日 本"'),
    ],
)
def test_the_fts5_expression_contains_only_quoted_phrases(text: str, expression: str) -> None:
    assert match_all(parse(text)) == expression


@given(st.text() | st.text('"*^:(){}-+ANDORT \x00日aB1'))
def test_quotes_are_balanced_and_only_generated_operators_stand_outside(text: str) -> None:
    expression = match_all(parse(text))

    assert expression.count('"') % 2 == 0
    assert set(
        " ".join(expression.split('"')[::2]).replace("(", " ").replace(")", " ").split()
    ) <= {"AND", "OR", "NOT", "*"}


@pytest.mark.parametrize("glue", [" ", "-", "—"])
def test_the_word_limit_is_exact(glue: str) -> None:
    words = ["w" * (number + 1) for number in range(MAX_WORDS + 1)]

    assert match_all(parse(glue.join(words[:-1])))
    with pytest.raises(Refused, match="words"):
        match_all(parse(glue.join(words)))


def test_hashes_share_the_prefix_limit() -> None:
    query = parse("te* " + " ".join(f"{number}abcdef" for number in range(1, MAX_PREFIXES + 2)))

    assert len(query.prefixes) == MAX_PREFIXES
    assert query.words == (f"{MAX_PREFIXES}abcdef", f"{MAX_PREFIXES + 1}abcdef")


def test_every_query_limit_is_enforced() -> None:
    with pytest.raises(Refused, match="different words"):
        parse(" ".join(map(str, range(MAX_ITEMS + 1))))
    with pytest.raises(Refused, match="characters"):
        parse("a-" * MAX_CHARS)
    with pytest.raises(Refused, match="kinds, scopes and tags"):
        parse(" ".join(f"tag:{number}" for number in range(MAX_FILTERS + 1)))
    with pytest.raises(Refused, match="star"):
        parse(
            " ".join(f"{'-' * (number % 2)}user{number}Name*" for number in range(MAX_PREFIXES + 1))
        )
    with pytest.raises(Refused, match="excludes"):
        parse("kind:a " + " ".join(f"-{number}" for number in range(MAX_WORDS + 1)))
    with pytest.raises(Refused, match="excludes"):
        parse("kind:a -a" + "-a" * MAX_WORDS)
    with pytest.raises(Refused, match="excludes"):
        parse("tea " + " ".join(f'-"{"a " * number}"' for number in range(1, 30)))

"""Tags: a JSON array string, an array or a comma-separated list. Malformed tags are rejected."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.errors import BadTags
from memrelay.memory.records.data import parse


@pytest.mark.parametrize(
    ("given_tags", "expected"),
    [
        (None, ()),
        ("", ()),
        ("  ", ()),
        (",,", ()),
        ("[]", ()),
        ([], ()),
        ('["important","fact"]', ("important", "fact")),
        (' [ "important" , "fact" ] ', ("important", "fact")),
        (["important", "fact"], ("important", "fact")),
        (("important",), ("important",)),
        ("important,fact", ("important", "fact")),
        (" important , fact ,", ("important", "fact")),
        ("important", ("important",)),
        ("b,a,b", ("b", "a")),
        ('["a,b"]', ("a,b",)),
        ('["", " "]', ()),
        ("日本,é", ("日本", "é")),
        ('5" pipe,a{b}', ('5" pipe', "a{b}")),
        (['"a"', "{b}"], ('"a"', "{b}")),
    ],
)
def test_tags_are_parsed_from_every_form_in_order_without_duplicates(
    given_tags: Any, expected: tuple[str, ...]
) -> None:
    assert parse(given_tags) == expected


@pytest.mark.parametrize(
    "malformed",
    [
        *(
            '["a"',
            '["a",]',
            '["a"] b',
            "[a]",
            "['a']",
            '["a", 1]',
            "[null]",
            '[["a"]]',
            '["\\ud800"]',
            "[" * 100_000,
        ),
        *('{"a":1}', '{"a":1,"b":2}', '"a"', '"a","b"', ' "a", b', "{a}"),
        *(["a", 1], [None], [["a"]], {"a": 1}, 5, 1.5, True, False, b"a"),
    ],
)
def test_malformed_tags_are_rejected_with_the_rule(malformed: Any) -> None:
    with pytest.raises(BadTags, match="JSON array of strings") as raised:
        parse(malformed)

    assert len(str(raised.value)) < 500


@given(st.lists(st.text().filter(str.strip)))
def test_an_array_and_its_json_give_the_same_tags(tags: list[str]) -> None:
    assert (
        parse(tags)
        == parse(orjson.dumps(tags).decode())
        == tuple(dict.fromkeys(tag.strip() for tag in tags))
    )


@given(st.lists(st.text().filter(str.strip)))
def test_parsing_tags_is_idempotent(tags: list[str]) -> None:
    once = parse(tags)

    assert parse(once) == once

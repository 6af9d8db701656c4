"""JMESPath within bounds, and the text of JSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.pipelines.expressions import (
    ExpressionFault,
    compile_expression,
    normalize_json,
    parse_json_text,
    to_text,
)

SURROGATES = st.characters(codec="utf-8") | st.sampled_from('\\"/\x00\n\x7f\ud83d\ude00')
TEXTS = st.text(SURROGATES, max_size=30)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("issue.title", "Müller"),
        ("items[?price > `3`].name | [0]", "pen"),
        ("missing || issue.title", "Müller"),
        ("length(items)", 2),
        ("to_string(issue)", '{"title":"Müller"}'),
        ("sort_by(items, &price)[0].name", "ink"),
        ("missing", None),
        # A function that does not take a type gives null, as a missing field does.
        ("length(missing)", None),
        ("items[0].name < `3` || sum(items)", None),
    ],
)
def test_an_expression_selects_a_value(source: str, value: object) -> None:
    body = {"issue": {"title": "Müller"}, "items": [{"name": "pen", "price": 4}]}
    body["items"] += [{"name": "ink", "price": 2}]  # type: ignore[operator]
    assert compile_expression(source).evaluate(body, 1000) == value


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("", "not JMESPath"),
        ("a..b", "from character 3 on"),
        ("$.a.b", "write a.b for"),
        ("a" * 1001, "at most 1000 characters"),
        ("[" + ",".join("a" * 101) + "]", "at most 100 parts"),
        ("||".join("a" * 25), "at most 20 deep"),
        ("(" * 990, "at most 20 deep"),
        ("size(@)", "no function 'size'"),
        ("length(a, b)", "takes 1 arguments"),
        ("sort_by(a, b)", "needs `&`"),
        ("length(&a)", "has no `&`"),
        ("&a", "only before an argument"),
    ],
)
def test_a_wrong_expression_is_refused_with_the_rule(source: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        compile_expression(source)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("|".join(["[@,@,@]"] * 18), "x"),
        ("|".join(["[@,@,@,@][]"] * 10), ["x"]),
        ("|".join(["join('',[@,@,@])"] * 12), "x" * 1000),
        ("|".join(["[@,@]"] * 12) + "|[].contains(@,'z')", "x" * 1_000_000),
        ("|".join(["{a:[a,a,a],b:[b,b,b]}"] * 7) + "|a==b", {"a": [1] * 999, "b": [1] * 999}),
        ("[*].[@,@][].[@,@][].[@][]", list(range(30_000))),
        ("[*].[@[1:],@[1:]]", [[1] * 1000] * 1000),
        ("@", "x" * 1_100_000),
    ],
)
def test_a_bound_ends_an_evaluation(source: str, value: object) -> None:
    with pytest.raises(ExpressionFault, match="more than"):
        compile_expression(source).evaluate(value, 1 << 20)


def test_the_text_of_json_has_no_needless_escapes() -> None:
    sent = r'{ "na\u006de": "M\u00fcller \ud83d\ude00 https:\/\/x", "n": 1.10, "n": 1e400}'
    assert normalize_json(sent) == '{ "name": "Müller 😀 https://x", "n": 1.10, "n": 1e400}'


@pytest.mark.parametrize(
    "sent",
    [r'"\\u0041 \\/"', r'"\u0022\u005c\u0000\n"', r'"\ud83d x \ude00"', '"\x7f\u2028"', r'["\/"]'],
)
def test_escapes_that_json_needs_stay(sent: str) -> None:
    text = normalize_json(sent)
    assert text is not None
    assert json.loads(text) == json.loads(sent)
    text.encode()


@pytest.mark.parametrize(
    "sent", ["", "hello", "NaN", "{'a': 1}", r'"\q \u0041"', '{"a":1,}', "[" * 5000, r'"\ud8"']
)
def test_other_texts_are_no_json(sent: str) -> None:
    assert normalize_json(sent) is None
    assert parse_json_text(sent) == {"text": sent}


@given(
    st.recursive(
        TEXTS | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)
    )
)
def test_a_normalized_text_has_the_same_meaning(value: Any) -> None:
    sent = json.dumps(value)
    text = normalize_json(sent)
    assert text is not None
    assert json.loads(text) == json.loads(sent)
    assert normalize_json(text) == text


def test_the_value_of_a_text_is_exact_and_bounded() -> None:
    assert parse_json_text('{"id": 12345678901234567890123}') == {"id": 12345678901234567890123}
    assert parse_json_text(r'"a\ud83d"') == "a\ufffd"
    deep = "[" * 300 + "]" * 300
    assert parse_json_text(deep) == {"text": deep}
    many = "[" + "1," * 1_000_001 + "1]"
    assert parse_json_text(many) == {"text": many}


def test_a_value_becomes_text() -> None:
    assert [to_text(value) for value in ("a", 1, None, {"a": "ü"})] == [
        "a",
        "1",
        "null",
        '{"a":"ü"}',
    ]

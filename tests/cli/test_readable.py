"""Readable output: answers as sentences, records as lines, and escaped text."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as some

from memrelay.cli.terminal import UNSAFE, escaped
from memrelay.cli.terminal.output import as_it_came
from memrelay.cli.terminal.readable import MAX_CHARACTERS, moment, table, text_lines, value_lines

GUID = "01a200a0-9980-7000-8018-9f7019b48c30"


def make_record(content: str = "The meeting is at 3pm", **keys: Any) -> dict[str, Any]:
    return {
        "guid": GUID,
        "kind": "observation",
        "content": content,
        "created_at": 1795306765698,
    } | keys


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ({"guid": GUID}, f"Written as {GUID}"),
        ({"guid": GUID, "created": True}, f"Written as {GUID}"),
        ({"guid": GUID, "appended": True}, f"Appended to {GUID}"),
        ({"deleted": 1}, "Deleted 1 record."),
        ({"deleted": 12}, "Deleted 12 records."),
        ({"deleted": 0}, "Nothing deleted: no record has this guid."),
        ({"deleted": "all"}, '{"deleted":"all"}'),
        ({"skipped": "no query"}, "Nothing done: no query"),
        ({"error": "no content"}, "Error: no content"),
        ([], "Nothing found."),
        (
            {
                "records": [],
                "explanation": {"nothing": {"reason": "unknown", "detail": "no record has 'x'"}},
            },
            "Nothing found: no record has 'x'.",
        ),
        ("hello", "hello"),
        ("", ""),
        (None, "null"),
        ([1, {"a": 2}], '[1,{"a":2}]'),
    ],
)
def test_an_answer_is_a_sentence(value: Any, line: str) -> None:
    assert value_lines(value) == [line]


def test_further_lines_of_a_record_are_indented_below_the_first() -> None:
    first, second = value_lines([make_record("one\ntwo")])

    assert first == f"{moment(1795306765698)}  observation  01a200a0-9980…  one"
    assert second == " " * first.index("one") + "two"


@pytest.mark.parametrize("created_at", [None, "noon", 10**30, -(10**30), float("nan"), [], True])
def test_a_record_with_an_invalid_time_is_shown(created_at: Any) -> None:
    (line,) = value_lines(make_record("tea", created_at=created_at))

    assert line.endswith("tea")


def test_a_very_long_text_is_cut_with_a_note() -> None:
    lines = text_lines("x" * 1_000_000)

    assert lines == ["x" * MAX_CHARACTERS, "… (1000000 characters; --json prints all of them)"]


def test_columns_are_aligned() -> None:
    assert list(table([("NAME", "UID"), ("a", "1"), ("longer", "22")])) == [
        "NAME    UID",
        "a       1",
        "longer  22",
    ]


def test_columns_are_aligned_for_wide_and_combining_characters() -> None:
    rows = [
        ("NAME", "UID"),
        ("日本語", "1"),
        ("🙂", "2"),
        ("Änne", "3"),
        ("A\u0308nne", "4"),
        ("\x1b", "5"),
    ]

    assert list(table(rows)) == [
        "NAME    UID",
        "日本語  1",
        "🙂      2",
        "Änne    3",
        "A\u0308nne    4",
        "\x1b  5",
    ]


def test_further_lines_are_aligned_for_a_wide_kind() -> None:
    first, second = value_lines([make_record("one\ntwo", kind="観測")])

    assert second.index("two") == first.index("one") + len("観測")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\u001b[2J"),
        ("\x9b", "\\u009b"),
        ("a\u202eb", "a\\u202eb"),
        ("\U000e0041", "\\udb40\\udc41"),
        ("Ärger 茶 👩\u200d🚀", "Ärger 茶 👩\u200d🚀"),
    ],
)
def test_characters_that_control_a_terminal_are_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown


@given(some.text())
def test_escaping_removes_all_unsafe_characters_and_keeps_the_meaning_of_json(text: str) -> None:
    shown = escaped(orjson.dumps(text).decode())

    assert not UNSAFE.search(shown)
    assert orjson.loads(shown) == text


@pytest.mark.parametrize("text", [b"123456789012345678901234567890", b'{ "a":\n\t1.10 }', b'"\\n"'])
def test_json_keeps_every_digit_on_one_line(text: bytes) -> None:
    assert orjson.dumps(as_it_came(text)) == text.replace(b"\n", b" ").replace(b"\t", b" ")

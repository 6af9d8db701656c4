"""regex_match: publishes the argument of a command."""

from typing import Any

import pytest
from pydantic import ValidationError

from memrelay.blocks.contract import BlockArgs
from tests.blocks.calls import NOW, answer, args_of, ask, make_call, make_message


def said(text: str, pattern: str, **args: Any) -> str | None:
    """Return the published text, or None."""
    spoken = ask("regex_match", text, pattern=pattern, **args)
    return None if spoken is None else spoken["args"][0]["text"]


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("/write The meeting is at 3pm", r"^/write\s+(.*)", "The meeting is at 3pm"),
        ("/write  spaced  out ", r"^/write\s+(.*)", "spaced  out "),
        ("/write two\nlines", r"^/write\s+(.*)", "two"),
        ("/read", r"^/read\b", "/read"),
        ("/read all", r"^/read\b", "/read"),
        ("/delete 3f8a2c1d-7e09", r"^/delete\s+(\S+)", "3f8a2c1d-7e09"),
        ("/delete a b", r"^/delete\s+(\S+)", "a"),
        ("remember: tea", r"remember: (\w+)", "tea"),
        ("tea and milk", r"(tea) and (milk)", "tea"),
        ("tea", r"t.a", "tea"),
        ("/write", r"^/write\s+(.*)", None),
        ("/writes x", r"^/write\s+(.*)", None),
        ("say /write x", r"^/write\s+(.*)", None),
        ("/reader", r"^/read\b", None),
        ("", r"^/", None),
        ("", r"", ""),
        ("tea", r"", ""),
    ],
)
def test_the_first_group_or_the_whole_match_is_published(
    text: str, pattern: str, expected: str | None
) -> None:
    assert said(text, pattern) == expected


@pytest.mark.parametrize(
    ("group", "expected"),
    [(0, "tea and milk"), (1, "tea"), (2, "milk"), ("2", "milk"), ("drink", "milk"), (None, "tea")],
)
def test_a_group_is_selected_by_number_or_name(group: int | str | None, expected: str) -> None:
    assert said("some tea and milk", r"(tea) and (?P<drink>milk)", group=group) == expected


def test_a_group_outside_the_match_is_an_empty_text() -> None:
    assert said("tea", r"tea( with milk)?") == ""
    assert said("b", r"(a)|b") == ""


@pytest.mark.parametrize(
    ("flags", "text", "expected"),
    [
        ("i", "/WRITE Tea", "Tea"),
        ("s", "/write a\nb", "a\nb"),
        ("m", "said:\n/write tea", "tea"),
        ("ism", "said:\n/Write a\nb", "a\nb"),
        ("smi", "said:\n/Write a\nb", "a\nb"),
        ("", "/WRITE Tea", None),
        ("", "said:\n/write tea", None),
    ],
)
def test_flags_are_those_of_re2(flags: str, text: str, expected: str | None) -> None:
    assert said(text, r"^/write\s+(.*)", flags=flags) == expected


def test_the_reply_is_from_the_agent_and_has_the_same_id() -> None:
    spoken = ask("regex_match", "/write tea", pattern=r"^/write\s+(.*)")

    assert spoken is not None
    assert (spoken["from"], spoken["id"]) == ("dispatch", "user-alias")
    assert spoken["args"] == [
        {"username": "Keeper", "text": "tea", "timestamp": NOW, "type": "text/plain"}
    ]


def test_the_type_of_the_input_is_kept() -> None:
    message = make_message('{"a": 1}', type="application/json")

    spoken = answer("regex_match", make_call(message), pattern=".*")

    assert spoken is not None
    assert spoken["args"][0]["type"] == "application/json"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"pattern": "("}, "missing"),
        ({"pattern": "a**"}, "RE2 refuses"),
        ({"pattern": "(?=a)"}, "look-around"),
        ({"pattern": r"(a)\1"}, "back-references"),
        ({"pattern": "x{1001}"}, "repetition"),
        ({"pattern": "((((x{100}){100}){100}){100})"}, "RE2 refuses"),
        ({"pattern": "x" * 2001}, "2001 characters; at most 2000"),
        ({"pattern": "a", "flags": "x"}, "flags are any of i, s and m"),
        ({"pattern": "a", "flags": "i)("}, "flags are any of i, s and m"),
        ({"pattern": "a", "group": 1}, "no group 1"),
        ({"pattern": "(a)", "group": 2}, "no group 2"),
        ({"pattern": "(a)", "group": -1}, "no group -1"),
        ({"pattern": "(a)", "group": "1" * 5000}, "no group 1"),
        ({"pattern": "(?P<b>a)", "group": "c"}, "no group named 'c'"),
        ({}, "pattern"),
        ({"pattern": "a", "invert": True}, "invert"),
    ],
)
def test_invalid_arguments_are_an_error_at_deploy(args: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        args_of("regex_match", **args)

    assert told in str(refused.value)


def test_only_matching_texts_are_delivered() -> None:
    args: BlockArgs = args_of("regex_match", pattern=r"^/write\s+(.*)")

    assert args.selector is not None
    assert not args.selector.invert
    assert args.selector.pattern.capture("/write tea", 0) == "/write tea"

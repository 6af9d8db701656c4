"""The message: its type, its time in either unit, and its sender."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memrelay.bus.codec import decode
from memrelay.bus.errors import MalformedMessage
from memrelay.bus.message import JSON, PLAIN, Message, new_message


def make_message(**part: Any) -> Message:
    """Return a message of one part, decoded."""
    return decode(
        json.dumps({"from": "User", "id": "me", "args": [{"text": "tea"} | part]}).encode(), 1 << 20
    )


@pytest.mark.parametrize(
    ("stamp", "expected_ms"),
    [
        (1_700_000_000_123, 1_700_000_000_123),
        (1_700_000_000, 1_700_000_000_000),
        ("1700000000", 1_700_000_000_000),
        (1_700_000_000.5, 1_700_000_000_500),
        ("1700000000123", 1_700_000_000_123),
    ],
)
def test_a_timestamp_in_seconds_is_converted(stamp: Any, expected_ms: int) -> None:
    assert make_message(timestamp=stamp).timestamp_ms == expected_ms


@given(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())
)
@example("nan")
@example("inf")
@example(float("-inf"))
@example("")
@example(10**400)
def test_any_timestamp_is_a_number_of_ms_none_or_malformed(stamp: Any) -> None:
    try:
        found = make_message(timestamp=stamp).timestamp_ms
    except MalformedMessage:
        return

    assert found is None or type(found) is int


@pytest.mark.parametrize("part", [{}, {"type": PLAIN}])
def test_a_part_without_a_type_is_plain_text(part: dict[str, str]) -> None:
    assert make_message(**part).type == PLAIN


def test_a_message_under_another_sender_keeps_its_contents() -> None:
    message = new_message("User", "me", "{}", username="User", now_ms=1_700_000_000_000, kind=JSON)

    passed_on = message.under("no_command")

    assert (passed_on.sender, passed_on.id, passed_on.args) == (
        "no_command",
        message.id,
        message.args,
    )
    assert (passed_on.text, passed_on.type, passed_on.timestamp_ms) == (
        "{}",
        JSON,
        1_700_000_000_000,
    )
    assert message.sender == "User"

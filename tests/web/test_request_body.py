"""Conversion of request bodies to envelopes."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.bus.codec import decode
from memrelay.web.server.errors import BadRequest, Problem, TooLarge, Unprocessable
from memrelay.web.server.options import WebOptions
from memrelay.web.server.request_body import to_envelope

MOST = 1 << 20
ENVELOPE = {
    "from": "Ann",
    "id": "x",
    "args": [{"text": "hello", "mood": "good"}, {"text": "and more"}],
}
NESTED = {depth: b"[" * depth + b"]" * depth for depth in (60, 65, 2000)}


def convert(body: bytes, most: int = MOST, depth: int = 64) -> dict[str, Any]:
    """Return the envelope of a body. The codec must be able to decode it."""
    bounds = WebOptions(message_bytes=most, json_depth=depth)
    envelope = to_envelope(body, sender="webhook", now_ms=1_780_000_000_000, limits=bounds)
    decode(envelope, MOST)
    made: dict[str, Any] = orjson.loads(envelope)
    return made


def part(body: bytes, depth: int = 64) -> dict[str, Any]:
    """Return the only part of a body's envelope."""
    (only,) = convert(body, depth=depth)["args"]
    return only


def get_problem(body: bytes, most: int = MOST, depth: int = 64) -> Problem:
    with pytest.raises(Problem) as caught:
        convert(body, most, depth)
    return caught.value


def test_an_envelope_keeps_its_unknown_fields() -> None:
    assert convert(orjson.dumps(ENVELOPE)) == ENVELOPE


@pytest.mark.parametrize("body", [b'{"text": "hello"}', b"hello"])
def test_a_byte_order_mark_is_not_part_of_the_text(body: bytes) -> None:
    assert part(b"\xef\xbb\xbf" + body) == part(body)


@pytest.mark.parametrize("nobody", [{}, {"from": None}, {"from": ""}])
def test_an_envelope_without_a_sender_comes_from_the_caller(nobody: dict[str, Any]) -> None:
    made = convert(orjson.dumps({"args": [{"text": "hello"}]} | nobody))

    assert (made["from"], made["id"]) == ("webhook", "")


@pytest.mark.parametrize(
    "nobody", [{"from": None}, {"from": ""}, {"id": None}, {"from": None, "id": ""}]
)
def test_a_text_without_a_sender_comes_from_the_caller(nobody: dict[str, Any]) -> None:
    assert convert(orjson.dumps({"text": "hello"} | nobody)) == convert(b'{"text": "hello"}')


def test_an_object_with_a_text_becomes_the_only_part() -> None:
    assert part(b'{"text": "hello", "mood": {"is": "good"}}') == {
        "text": "hello",
        "mood": {"is": "good"},
        "username": "webhook",
        "timestamp": 1_780_000_000_000,
        "type": "text/plain",
    }


def test_an_object_with_a_text_may_set_sender_and_type() -> None:
    made = convert(
        b'{"text": "{}", "from": "Ann", "id": "x", "type": "application/json", "username": "ann"}'
    )

    assert (made["from"], made["id"]) == ("Ann", "x")
    assert (made["args"][0]["type"], made["args"][0]["username"]) == ("application/json", "ann")


@pytest.mark.parametrize(
    "body",
    [
        b"5",
        b'"hello"',
        b"[1, 2]",
        b'{"event": "push"}',
        b'{"text": 5}',
        b'{"args": {}}',
        b'{"text": "x", "username": 5}',
        b'{"id": "evt_1"}',
        b'{"id": "evt_1", "type": "paid"}',
        b'{"type": "heartbeat", "timestamp": 1}',
        b'{"from": 5}',
        b'{"from": "Ann", "text": null, "color": "red"}',
        b'{"args": null, "event": "push"}',
        NESTED[60],
    ],
)
def test_other_json_becomes_the_text(body: bytes) -> None:
    assert (part(body)["text"], part(body)["type"]) == (body.decode(), "application/json")


@pytest.mark.parametrize(
    "body", [b"hello", b"a=b&c=d", b"{", b"NaN", b"--x\r\nContent-Type: text/plain"]
)
def test_a_body_that_is_not_json_is_plain_text(body: bytes) -> None:
    assert (part(body)["text"], part(body)["type"]) == (body.decode(), "text/plain")


def test_a_final_line_break_is_stripped() -> None:
    assert part(b"hello\n")["text"] == "hello"
    assert part(b'{"event": 1}\n')["text"] == '{"event": 1}'


def test_an_empty_body_is_an_empty_text() -> None:
    assert (part(b"")["text"], part(b"")["type"]) == ("", "text/plain")


@pytest.mark.parametrize("fields", [{}, {"args": None}, {"text": None}, {"text": ""}])
@pytest.mark.parametrize(
    "author", [{}, {"from": None}, {"from": "Ann"}, {"from": "Ann", "id": "x"}]
)
def test_an_envelope_without_parts_is_an_empty_message(
    fields: dict[str, Any], author: dict[str, Any]
) -> None:
    made = convert(orjson.dumps(fields | author))

    assert (made["from"], made["id"]) == (author.get("from") or "webhook", author.get("id", ""))
    assert (made["args"][0]["text"], made["args"][0]["type"]) == ("", "text/plain")
    assert part(b"null")["text"] == ""


@pytest.mark.parametrize("body", [b"\xff\xfe", b'{"text": "\xc3"', b"caf\xe9"])
def test_a_body_that_is_not_utf8_is_rejected(body: bytes) -> None:
    assert isinstance(get_problem(body), BadRequest)


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'["hello"]',
        b"[null]",
        b'[{"name": 1}]',
        b'[{"text": null}]',
        b'[{"text": 5}]',
        b'[{"text": "x"}, {"name": 1}]',
    ],
)
@pytest.mark.parametrize("fields", [b"", b', "text": "x"', b', "from": "Ann"'])
def test_args_that_are_no_messages_are_refused(body: bytes, fields: bytes) -> None:
    problem = get_problem(b'{"args": %s%s}' % (body, fields))

    assert isinstance(problem, Unprocessable)
    assert problem.detail.startswith("`args") and "an envelope is" in problem.detail


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"args": [{"text": "x"}], "from": 5}', "from"),
        (b'{"args": [{"text": "x", "type": 5}]}', "type"),
        (b'{"text": "x", "from": 5}', "from"),
        (b'{"text": "x", "id": []}', "id"),
    ],
)
def test_a_field_of_another_type_is_refused(body: bytes, field: str) -> None:
    problem = get_problem(body)

    assert isinstance(problem, Unprocessable)
    assert f"`{field}`" in problem.detail or f"`$.{field}`" in problem.detail


@pytest.mark.parametrize(
    "body",
    [
        NESTED[2000],
        b'{"text": "x", "more": %s}' % NESTED[65],
        b'{"args": [{"text": "x", "more": %s}]}' % NESTED[65],
        b'{"args": [%s]}' % NESTED[2000],
    ],
    ids=["any", "text", "envelope", "very deep"],
)
def test_deeply_nested_json_is_rejected(body: bytes) -> None:
    assert "deeper than 64 levels (web.max_json_depth)" in get_problem(body).detail


def test_the_depth_limit_is_configurable() -> None:
    assert "deeper than 100" in get_problem(NESTED[2000], depth=100).detail
    assert part(NESTED[65], depth=100)["text"] == NESTED[65].decode()


def test_brackets_and_colons_in_strings_count_toward_no_limit() -> None:
    text = "[{:" * 20_000

    assert part(orjson.dumps({"text": text, "list": [[]] * 100}))["text"] == text
    assert part(text.encode())["text"] == text


@pytest.mark.parametrize(
    "make",
    [
        lambda count: {str(at): 0 for at in range(count)},
        lambda count: {"text": "x", "more": [{"a": ":::"}] * (count - 2)},
    ],
    ids=["one object", "many"],
)
def test_json_with_too_many_keys_is_rejected(make: Callable[[int], Any]) -> None:
    assert part(orjson.dumps(make(10_000)))
    assert (
        "more than 10000 keys (web.max_json_keys)" in get_problem(orjson.dumps(make(10_001))).detail
    )


@pytest.mark.parametrize(
    "body",
    [
        b"x" * 1001,
        b"\x01" * 400,
        b'{"text": "%s"}' % (b"x" * 990),
        b'{"args": [{"text": "%s"}]}' % (b"x" * 980),
    ],
    ids=["text", "control characters", "text in JSON", "envelope"],
)
def test_a_body_that_is_too_long_is_rejected(body: bytes) -> None:
    fault = get_problem(body, 1000)

    assert isinstance(fault, TooLarge)
    is_long = len(body) > 1000
    assert ("bus.max_message_bytes allows 1000" if is_long else "at most 2200") in fault.detail


def test_quotes_do_not_make_a_body_too_long() -> None:
    assert convert(b'"' * 990, 1000)["args"][0]["text"] == '"' * 990


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["text", "args", "from", "id", "type", "username", "x"]),
            inner,
            max_size=5,
        )
    ),
)


@given(st.binary(max_size=200) | JSON_VALUES.map(orjson.dumps))
def test_every_body_becomes_a_valid_envelope_or_a_problem(body: bytes) -> None:
    try:
        convert(body)
    except Problem as fault:
        assert fault.status in (400, 422)
        assert fault.detail

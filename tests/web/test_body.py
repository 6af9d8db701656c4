"""A body becomes an envelope: JSON first, whatever its Content-Type; what is no JSON is plain
text."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.bus.codec import decode
from memrelay.web.server.errors import BadRequest, Problem, TooLarge, Unprocessable
from memrelay.web.server.request_body import to_envelope
from memrelay.web.server.services import WebOptions

MOST = 1 << 20
ENVELOPE = {
    "from": "Ann",
    "id": "x",
    "args": [{"text": "hello", "mood": "good"}, {"text": "and more"}],
}
NESTED = {depth: b"[" * depth + b"]" * depth for depth in (60, 65, 2000)}


def read(body: bytes, most: int = MOST, depth: int = 64) -> dict[str, Any]:
    """The envelope of a body, which a worker can read too."""
    bounds = WebOptions(message_bytes=most, json_depth=depth)
    envelope = to_envelope(body, sender="webhook", now_ms=1_780_000_000_000, bounds=bounds)
    decode(envelope, MOST)
    made: dict[str, Any] = orjson.loads(envelope)
    return made


def part(body: bytes, depth: int = 64) -> dict[str, Any]:
    """The only part of what a body becomes."""
    (only,) = read(body, depth=depth)["args"]
    return only


def refusal(body: bytes, most: int = MOST, depth: int = 64) -> Problem:
    with pytest.raises(Problem) as caught:
        read(body, most, depth)
    return caught.value


def test_an_envelope_stays_as_it_is_with_keys_that_nobody_knows() -> None:
    assert read(orjson.dumps(ENVELOPE)) == ENVELOPE


@pytest.mark.parametrize("body", [b'{"text": "hello"}', b"hello"])
def test_the_mark_that_some_editors_put_before_a_text_is_no_part_of_it(body: bytes) -> None:
    assert part(b"\xef\xbb\xbf" + body) == part(body)


@pytest.mark.parametrize("nobody", [{}, {"from": None}, {"from": ""}])
def test_an_envelope_that_names_nobody_was_said_by_the_caller(nobody: dict[str, Any]) -> None:
    made = read(orjson.dumps({"args": [{"text": "hello"}]} | nobody))

    assert (made["from"], made["id"]) == ("webhook", "")


@pytest.mark.parametrize(
    "nobody", [{"from": None}, {"from": ""}, {"id": None}, {"from": None, "id": ""}]
)
def test_a_text_that_names_nobody_was_said_by_the_caller(nobody: dict[str, Any]) -> None:
    assert read(orjson.dumps({"text": "hello"} | nobody)) == read(b'{"text": "hello"}')


def test_a_text_is_the_only_part_with_whatever_else_it_holds() -> None:
    assert part(b'{"text": "hello", "mood": {"is": "good"}}') == {
        "text": "hello",
        "mood": {"is": "good"},
        "username": "webhook",
        "timestamp": 1_780_000_000_000,
        "type": "text/plain",
    }


def test_a_text_may_say_who_says_it_and_of_what_type_it_is() -> None:
    made = read(
        b'{"text": "{}", "from": "Ann", "id": "x", "type": "application/json", "username": "ann"}'
    )

    assert (made["from"], made["id"]) == ("Ann", "x")
    assert (made["args"][0]["type"], made["args"][0]["username"]) == ("application/json", "ann")


@pytest.mark.parametrize(
    "body",
    [
        b"null",
        b"5",
        b'"hello"',
        b"[1, 2]",
        b'{"event": "push"}',
        b'{"text": 5}',
        b'{"args": {}}',
        b'{"text": "x", "username": 5}',
        b'{"text": null}',
        NESTED[60],
    ],
)
def test_any_other_json_is_the_text(body: bytes) -> None:
    assert (part(body)["text"], part(body)["type"]) == (body.decode(), "application/json")


@pytest.mark.parametrize(
    "body", [b"hello", b"a=b&c=d", b"{", b"NaN", b"--x\r\nContent-Type: text/plain"]
)
def test_what_is_no_json_is_plain_text(body: bytes) -> None:
    assert (part(body)["text"], part(body)["type"]) == (body.decode(), "text/plain")


def test_the_line_break_at_the_end_is_none_of_the_text() -> None:
    assert part(b"hello\n")["text"] == "hello"
    assert part(b'{"event": 1}\n')["text"] == '{"event": 1}'


def test_nothing_at_all_is_an_empty_text() -> None:
    assert (part(b"")["text"], part(b"")["type"]) == ("", "text/plain")


@pytest.mark.parametrize("body", [b"\xff\xfe", b'{"text": "\xc3"', b"caf\xe9"])
def test_what_is_no_text_is_refused(body: bytes) -> None:
    assert isinstance(refusal(body), BadRequest)


@pytest.mark.parametrize(
    "body",
    [
        b'{"args": []}',
        b'{"args": ["hello"]}',
        b'{"args": [{"text": 5}]}',
        b'{"args": [{"text": "x"}], "from": 5}',
        b'{"text": "x", "from": 5}',
        b'{"text": "x", "id": []}',
    ],
)
def test_a_message_that_nobody_could_read_is_refused(body: bytes) -> None:
    assert isinstance(refusal(body), Unprocessable)


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
def test_what_is_nested_too_deeply_is_refused(body: bytes) -> None:
    assert "deeper than 64, which is what web.max_json_depth allows" in refusal(body).detail


def test_a_bound_on_depth_that_is_higher_holds_too() -> None:
    assert "deeper than 100" in refusal(NESTED[2000], depth=100).detail
    assert part(NESTED[65], depth=100)["text"] == NESTED[65].decode()


def test_brackets_and_colons_in_strings_nest_nothing_and_are_no_keys() -> None:
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
def test_more_keys_than_are_allowed_are_refused(make: Callable[[int], Any]) -> None:
    assert part(orjson.dumps(make(10_000)))
    assert (
        "more than 10000 keys, which is what web.max_json_keys allows"
        in refusal(orjson.dumps(make(10_001))).detail
    )


@pytest.mark.parametrize(
    "body",
    [
        b"x" * 1000,
        b"\x01" * 200,
        b'{"text": "%s"}' % (b"x" * 980),
        b'{"args": [{"text": "%s"}]}' % (b"x" * 970),
    ],
    ids=["text", "control characters", "text in JSON", "envelope"],
)
def test_what_becomes_too_long_as_an_envelope_is_refused_at_once(body: bytes) -> None:
    fault = refusal(body, 1000)

    assert isinstance(fault, TooLarge)
    assert "bus.max_message_bytes allows 1000" in fault.detail


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
def test_every_body_becomes_an_envelope_that_a_worker_reads_or_is_refused_with_a_reason(
    body: bytes,
) -> None:
    try:
        read(body)
    except Problem as fault:
        assert fault.status in (400, 422)
        assert fault.detail

"""The codec: round trips, malformed envelopes, and recognition of own live copies."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memrelay.bus.codec import decode, encode, is_own_copy
from memrelay.bus.errors import MalformedMessage
from memrelay.bus.message import JSON, Message, new_message
from tests.support.copies import live_copy

PLENTY = 1 << 20


def to_json(value: Any) -> bytes:
    return json.dumps(value).encode()


texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=8
)
times = st.integers(0, 2**53) | st.floats(0, 1e15) | texts
parts = st.fixed_dictionaries(
    {"text": texts}, optional={"type": texts, "timestamp": times, "username": texts, "more": values}
)
envelopes = st.fixed_dictionaries(
    {"args": st.lists(parts, min_size=1, max_size=3)}, optional={"from": texts, "id": texts}
)
jsons = values.map(to_json)
envelope_like = st.dictionaries(st.sampled_from(["from", "id", "args"]), values).map(to_json)
entries = st.from_regex(rb"[0-9]{1,20}-[0-9]{1,20}", fullmatch=True)


def make_data(text: str = "tea") -> bytes:
    return encode(new_message("User", "me", text, username="User", now_ms=1_700_000_000_000))


def mid_of(copy: bytes) -> str:
    return str(orjson.loads(copy)["mid"])


@given(envelopes)
def test_decoding_and_encoding_keep_the_contents(envelope: dict[str, Any]) -> None:
    message = decode(to_json(envelope), PLENTY)

    again = json.loads(encode(message))

    assert (again["from"], again["id"]) == (envelope.get("from", ""), envelope.get("id", ""))
    assert [
        part | given for part, given in zip(again["args"], envelope["args"], strict=True)
    ] == again["args"]
    assert encode(decode(encode(message), PLENTY)) == encode(message)


@given(envelopes)
def test_the_text_is_that_of_the_first_part(envelope: dict[str, Any]) -> None:
    message = decode(to_json(envelope), PLENTY)

    assert message.text == envelope["args"][0]["text"]
    assert len(message.args) == len(envelope["args"])


def test_unknown_keys_of_an_envelope_are_dropped() -> None:
    data = orjson.dumps(
        {"from": "a", "args": [{"text": "tea"}], "mid": "5-1.0~00000000", "color": "green"}
    )

    message = decode(data, PLENTY)

    assert orjson.loads(encode(message)).keys() == {"from", "id", "args"}


@pytest.mark.parametrize(
    "fields", [{}, {"args": []}, {"args": None}, {"text": None}, {"text": "", "mid": "5-1.0"}]
)
def test_an_envelope_without_parts_is_an_empty_message(fields: dict[str, Any]) -> None:
    message = decode(orjson.dumps({"from": "Ann"} | fields), 100)

    assert (message.sender, message.text, message.speaker) == ("Ann", "", "Ann")
    assert orjson.loads(encode(message))["args"] == [{"text": ""}]
    assert decode(orjson.dumps(fields), 100).text == ""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"tea",
        b'{"args": [{"text": "te',
        b'\xff\xfe{"args": []}',
        rb'{"args": [{"text": "\ud800"}]}',
        b"[" * 100_000,
        b'"tea"',
        b"[]",
        b"null",
        b'{"id": "evt_1"}',
        b'{"type": "paid"}',
        b'{"args": null, "event": "push"}',
        b'{"from": "Ann", "text": "tea"}',
        b'{"from": 7}',
        b'{"args": {"text": "tea"}}',
        b'{"args": ["tea"]}',
        b'{"args": [{"text": 7}]}',
        b'{"args": [{"text": "tea", "type": []}]}',
        b'{"args": [{"text": "tea"}, 7]}',
        b'{"from": 7, "args": [{"text": "tea"}]}',
        b'{"id": {}, "args": [{"text": "tea"}]}',
    ],
)
def test_a_malformed_envelope_is_refused_with_an_example(data: bytes) -> None:
    with pytest.raises(MalformedMessage, match=r'"args": \[\{"text": "\.\.\."'):
        decode(data, PLENTY)


def test_null_is_the_same_as_missing() -> None:
    message = decode(
        b'{"from": null, "id": null, "args": [{"text": null, "type": null, "username": null}]}',
        PLENTY,
    )

    assert (message.text, message.type) == ("", "text/plain")


@given(st.binary() | jsons | envelope_like)
@example(b'{"args": [{"timestamp": 1e999}]}')
@example(b'{"args": [{"text": "a", "text": 1}]}')
def test_any_bytes_are_a_message_or_malformed(data: bytes) -> None:
    try:
        message = decode(data, PLENTY)
    except MalformedMessage as error:
        assert str(error)
    else:
        assert isinstance(message, Message)


@given(
    envelopes.map(to_json)
    | envelopes.map(lambda envelope: json.dumps(envelope, indent=1, ensure_ascii=False).encode())
)
@example(b'{"args": [{"text": "tea", "more": "\xff"}]}')
@example(b'{"args": [{"text": "tea", "m\xff": 1}]}')
@example(b'{"more": "\xff", "args": [{"text": "tea"}]}')
@example(b'{"args": [{"text":\r\n\t"tea"}\n]}')
def test_encoded_messages_are_json_in_utf8(data: bytes) -> None:
    try:
        encoded = encode(decode(data, PLENTY))
    except MalformedMessage:
        return
    assert json.loads(encoded.decode())["args"]


def test_a_message_of_exactly_the_limit_is_accepted_and_a_longer_one_is_not() -> None:
    data = make_data("x" * 1000)
    data += b" " * (2200 - len(data))

    assert decode(data, 1000).text == "x" * 1000
    with pytest.raises(MalformedMessage, match=r"bus\.max_message_bytes"):
        decode(data + b" ", 1000)


@given(envelopes, entries, st.integers(0, 2000))
def test_a_live_copy_is_the_envelope_with_a_mid_and_is_recognized(
    envelope: Any, entry: bytes, number: int
) -> None:
    data = encode(decode(to_json(envelope), PLENTY))

    copy = live_copy(entry, number, data)

    assert orjson.loads(copy) == orjson.loads(data) | {"mid": mid_of(copy)}
    assert is_own_copy(copy)


@given(texts, st.data())
def test_a_copy_with_a_changed_byte_is_not_recognized(text: str, draw: st.DataObject) -> None:
    data = make_data(text)
    copy = live_copy(b"5-1", 2, data)
    at = draw.draw(st.integers(copy.index(b'"from"'), len(copy) - 1))

    changed = copy[:at] + bytes([copy[at] ^ draw.draw(st.integers(1, 255))]) + copy[at + 1 :]

    assert not is_own_copy(changed)


@given(st.binary() | envelopes.map(to_json) | texts.map(lambda text: b'{"mid":"' + text.encode()))
@example(b"")
@example(b'{"mid":"')
@example(b'{"mid":"~00000000"}')
@example(b'{"mid":"","args":[{"text":"tea"}]}')
@example(b'{"mid":"5-1.0~cbf43926","args":[{"text":"tea"}]}')
def test_foreign_messages_are_not_recognized_as_own_copies(payload: bytes) -> None:
    assert not is_own_copy(payload)


def test_a_copy_that_another_program_re_encoded_is_not_recognized() -> None:
    data = make_data()
    copy = live_copy(b"5-1", 0, data)

    parsed = orjson.loads(copy)

    assert not is_own_copy(orjson.dumps(dict(reversed(parsed.items()))))
    assert not is_own_copy(orjson.dumps(parsed, option=orjson.OPT_INDENT_2))


def test_a_mid_depends_on_input_number_and_text() -> None:
    made = [(0, make_data()), (1, make_data()), (0, make_data("x")), (0, make_data())]

    first, other_place, other_text, again = (mid_of(live_copy(b"5-1", *one)) for one in made)

    assert first == again
    assert first.startswith("5-1.0~") and other_place.startswith("5-1.1~")
    assert len({first, other_place, other_text}) == 3


@given(texts, st.sampled_from([JSON, "text/plain"]))
def test_a_new_message_is_one_part_with_all_chat_fields(text: str, kind: str) -> None:
    envelope = orjson.loads(
        encode(
            new_message(
                "keeper", "me", text, username="Keeper", now_ms=1_700_000_000_000, kind=kind
            )
        )
    )

    part = {"username": "Keeper", "text": text, "timestamp": 1_700_000_000_000, "type": kind}
    assert envelope == {"from": "keeper", "id": "me", "args": [part]}

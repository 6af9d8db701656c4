"""Values that policies found are replaced in JSON, however they are written in it."""

import json
from typing import Any

import orjson
import pytest

from memrelay.bus.message import new_message
from memrelay.worker.run.policies import redact, redact_message, redact_text

KEY = '-----BEGIN KEY-----\nab/c+d=="é😀\n-----END KEY-----'
FINDINGS = {KEY: "[private_key]", "AKIA": "[aws]"}


def escape_all(value: str) -> str:
    """Return a JSON text with an escape for each character, as some libraries write + and <."""
    units = value.encode("utf-16-be")
    pairs = zip(units[::2], units[1::2], strict=True)
    return '"' + "".join(f"\\u{high:02X}{low:02x}" for high, low in pairs) + '"'


@pytest.mark.parametrize("levels", [0, 1, 2])
@pytest.mark.parametrize(
    "write",
    [
        lambda text: orjson.dumps(text).decode(),
        json.dumps,
        lambda text: json.dumps(text).replace("/", "\\/"),
        lambda text: json.dumps(text).replace("+", "\\u002B"),
        escape_all,
    ],
    ids=["plain", "ascii", "slashes", "some", "all"],
)
def test_each_way_to_escape_a_value_is_found(write: Any, levels: int) -> None:
    text = write(f"use {KEY} now")
    for _ in range(levels):
        text = write('{"a": [' + text + "]}")

    redacted: Any = orjson.loads(redact(f'{{"args": [{{"text": {text}}}]}}'.encode(), FINDINGS))

    found = redacted["args"][0]["text"]
    for _ in range(levels):
        (found,) = orjson.loads(found)["a"]
    assert found == "use [private_key] now"


def test_json_inside_of_a_text_is_found_in_its_usual_forms() -> None:
    for dumps in (json.dumps, lambda text: orjson.dumps(text).decode()):
        text = f"/write {dumps([KEY])}"
        assert redact_text(text, FINDINGS) == '/write ["[private_key]"]'


def test_the_names_of_fields_and_small_numbers_stay() -> None:
    data = b'{"from":"args","id":"5","args":[{"text":"args 5","n":5,"Args":1,"args":2}]}'

    redacted = redact(data, {"args": "[name]", "5": "[five]", "Args": "[Name]"})

    assert orjson.loads(redacted) == {
        "from": "[name]",
        "id": "[five]",
        "args": [{"text": "[name] [five]", "n": 5, "[Name]": 1, "args": 2}],
    }


def test_a_number_that_was_found_as_a_text_is_replaced() -> None:
    card = 4012888888881881
    data = orjson.dumps({"text": orjson.dumps({"card": card, "at": 1_700_000_000_000}).decode()})

    redacted = orjson.loads(redact(data, {str(card): "[credit_card]"}))

    assert orjson.loads(redacted["text"]) == {"card": "[credit_card]", "at": 1_700_000_000_000}


def test_data_without_a_found_value_stays_as_it_is() -> None:
    data = b'{"n": 123456789012345678901234567890, "f": 1.0e5, "s": "\\u00e9\\ud800"}'
    assert redact(data, FINDINGS) == data
    assert b"123456789012345678901234567890" in redact(data[:-1] + b', "x": "AKIA"}', FINDINGS)


def test_data_that_is_no_json_loses_the_value() -> None:
    assert redact(b"{AKIA \xff", FINDINGS) == b"{[aws] \xff"
    assert redact(b"[" * 200_000 + b"AKIA", FINDINGS).endswith(b"[[aws]")


def test_the_sender_and_each_part_of_a_message_are_looked_at() -> None:
    message = new_message("AKIA", "me", "AKIA", username="AKIA", now_ms=1)

    redacted = redact_message(message, FINDINGS)

    assert (redacted.sender, redacted.text) == ("[aws]", "[aws]")
    assert "AKIA" not in str(redacted)

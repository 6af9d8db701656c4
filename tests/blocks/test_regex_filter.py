"""regex_filter: passes matching messages on unchanged, with the agent as sender."""

from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from memrelay.bus.codec import decode
from tests.blocks.calls import answer, args_of, make_call


def make_envelope(**part: Any) -> dict[str, Any]:
    first = {"username": "Ann", "text": "hello", "timestamp": 1700000000, "type": "text/markdown"}
    return {
        "from": "User",
        "id": "user-alias",
        "args": [first | part, {"text": "second", "type": "text/plain"}],
    }


def passed_on(envelope: dict[str, Any], **args: Any) -> dict[str, Any] | None:
    return answer("regex_filter", make_call(decode(orjson.dumps(envelope), 1 << 20)), **args)


def test_the_message_is_passed_on_unchanged_with_the_agent_as_sender() -> None:
    envelope = make_envelope()

    assert passed_on(envelope, pattern="hello") == envelope | {"from": "dispatch"}


@pytest.mark.parametrize(
    "part", [{"text": ""}, {"text": "🫖\x00\n"}, {"timestamp": "now"}, {"username": ""}]
)
def test_unusual_parts_are_passed_on_unchanged(part: dict[str, Any]) -> None:
    envelope = make_envelope(**part)

    assert passed_on(envelope, pattern="") == envelope | {"from": "dispatch"}


def test_unknown_keys_are_passed_on_unchanged() -> None:
    envelope = make_envelope(lang="en", meta={"turn": [1, 2]})

    assert passed_on(envelope, pattern="") == envelope | {"from": "dispatch"}


@pytest.mark.parametrize(("invert", "passes"), [(False, True), (True, False)])
def test_invert_passes_texts_that_do_not_match(invert: bool, passes: bool) -> None:
    selector = args_of("regex_filter", pattern="^/", invert=invert).selector

    assert selector is not None
    matches = selector.pattern.capture("/command", 0) is not None
    assert (matches != selector.invert) == passes


@pytest.mark.parametrize("invert", ["true", "false", True, False])
def test_invert_may_be_written_as_text(invert: Any) -> None:
    selector = args_of("regex_filter", pattern="^/", invert=invert).selector

    assert selector is not None
    assert selector.invert == (str(invert).lower() == "true")


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"pattern": "("},
        {"pattern": "a", "flags": "g"},
        {"pattern": "a", "group": 1},
        {"pattern": "a", "invert": 7},
    ],
)
def test_invalid_arguments_are_an_error_at_deploy(args: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        args_of("regex_filter", **args)


def test_a_text_is_published_in_place_of_the_message() -> None:
    said = passed_on(make_envelope(text="/wirte x"), pattern="^/write", invert=True, text="Help!")

    assert said is not None and [part["text"] for part in said["args"]] == ["Help!"]
    assert said["from"] == "dispatch"

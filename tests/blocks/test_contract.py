"""The contract of a block: Kilroy's names (contracts/kilroy.md A1.3) and its replies."""

from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from memrelay.blocks.contract import BlockArgs, Transient
from memrelay.bus.codec import encode
from memrelay.bus.message import Message
from tests.blocks.calls import NOW, ask, make_call, make_message, read_json


def test_the_text_is_the_text_of_the_first_part() -> None:
    assert make_call(make_message("tea")).text == "tea"
    assert make_call(make_message(None)).text == ""


def test_a_reply_is_one_part_of_text_with_the_names_of_the_agent() -> None:
    said = make_call(make_message("tea"), now_ms=NOW + 1).reply("milk")

    part = {"username": "Keeper", "text": "milk", "timestamp": NOW + 1, "type": "text/plain"}
    assert orjson.loads(encode(said)) == {"from": "dispatch", "id": "user-alias", "args": [part]}


def test_a_reply_in_json_is_text_that_contains_it() -> None:
    said = make_call(make_message("tea")).reply_json({"a": ["é", None, 1]})

    assert isinstance(said, Message)
    assert said.args[0].type == "application/json"
    assert said.text == '{"a":["é",null,1]}'


def test_an_error_is_a_reply_in_json() -> None:
    assert make_call(make_message("tea")).error('no "tea"').text == '{"error":"no \\"tea\\""}'


def test_new_guids_differ_and_a_replay_returns_the_same_ones() -> None:
    first, again = (make_call(make_message("tea"), input_id="1-7") for _ in range(2))

    guids = [first.new_guid() for _ in range(3)]

    assert len(set(guids)) == 3
    assert [again.new_guid() for _ in range(3)] == guids


@pytest.mark.parametrize(
    "block", ["memory_write", "memory_read", "memory_search", "memory_append", "memory_delete"]
)
def test_every_memory_block_reports_a_missing_memory_id(block: str) -> None:
    said = ask(block, "tea")

    assert said is not None
    assert read_json(said).keys() == {"error"}
    assert "memory_id" in read_json(said)["error"]


def test_a_forwarded_message_has_the_new_fields_and_the_sender_of_the_agent() -> None:
    call = make_call(make_message("tea", extra={"a": 1}))

    said = call.forward(text="milk", user_id="u1")

    assert (said.sender, said.id, said.text) == ("dispatch", "user-alias", "milk")
    assert said.part == call.part | {"text": "milk", "user_id": "u1"}
    assert make_call(said.under("relay")).part["user_id"] == "u1"
    assert call.reply("tea").part.keys() == {"username", "text", "timestamp", "type"}


def test_a_forwarded_message_must_fit_the_limit_and_the_types_of_a_part() -> None:
    call = make_call(make_message("tea"), message_bytes=100)
    room = 220 - len(encode(call.forward(note="")))

    assert len(encode(call.forward(note="x" * room))) == 220
    with pytest.raises(ValueError, match=r"221 bytes; bus\.max_message_bytes allows 220"):
        call.forward(note="x" * room + "x")
    with pytest.raises(TypeError, match="cannot have these fields"):
        call.forward(text=5)


@pytest.mark.parametrize("answer", [5, None, b"milk", {"a": 1}])
def test_a_reply_that_is_not_text_is_refused_with_the_remedy(answer: Any) -> None:
    with pytest.raises(TypeError, match=r"write call.reply\(str"):
        make_call(make_message("tea")).reply(answer)


def test_an_optional_flag_is_a_flag_and_a_list_may_contain_flags() -> None:
    class Args(BlockArgs):
        loud: bool | None = None
        either: bool | int = 0
        each: list[bool]
        anything: Any = None

    args = Args.model_validate({"loud": "TRUE", "either": True, "each": [True], "anything": False})

    assert (args.loud, args.either, args.each, args.anything) == (True, True, [True], False)
    with pytest.raises(ValidationError, match="must be true or false"):
        Args.model_validate({"loud": 1})


class Later(Transient):
    """An exception with its own arguments, which does not call that of Transient."""

    def __init__(self, after_s: float) -> None:
        self.after_s = after_s


def test_a_transient_error_of_another_shape_counts() -> None:
    assert (Later(2.0).after_s, Later(2.0).counts) == (2.0, True)

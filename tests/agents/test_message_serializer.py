"""The serializer that remembers the messages of conversations."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from memrelay.agents import message_serializer
from memrelay.agents.message_serializer import MessageSerializer

QUESTION = HumanMessage("hello", id="1")
TYPED = JsonPlusSerializer().dumps_typed(QUESTION)


def test_a_stored_message_is_loaded_once() -> None:
    serializer = MessageSerializer()
    loaded = serializer.loads_typed(TYPED)

    assert loaded == QUESTION
    assert serializer.loads_typed((TYPED[0], bytes(bytearray(TYPED[1])))) is loaded
    assert serializer.dumps_typed(loaded) == TYPED


def test_a_new_message_is_serialized_once() -> None:
    serializer = MessageSerializer()

    assert serializer.dumps_typed(QUESTION) == TYPED
    assert serializer.dumps_typed(QUESTION) is serializer.dumps_typed(QUESTION)
    assert serializer.loads_typed(TYPED) is QUESTION


def test_messages_with_equal_content_keep_their_own_bytes() -> None:
    serializer, answer = MessageSerializer(), AIMessage("hello", id="1")

    assert serializer.dumps_typed(QUESTION) == TYPED
    assert serializer.loads_typed(serializer.dumps_typed(answer)) is answer


def test_a_message_without_an_id_is_not_remembered() -> None:
    serializer, message = MessageSerializer(), HumanMessage("hello")
    before = serializer.dumps_typed(message)
    message.id = "1"

    assert before != TYPED
    assert serializer.dumps_typed(message) == TYPED


@pytest.mark.parametrize(("limit", "most"), [("MAX_MESSAGES", 2), ("MAX_BYTES", 2 * len(TYPED[1]))])
def test_the_least_recently_used_messages_are_forgotten(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(message_serializer, limit, most)
    serializer = MessageSerializer()
    first, second, third = (
        JsonPlusSerializer().dumps_typed(HumanMessage("hello", id=ident)) for ident in "123"
    )
    loaded = serializer.loads_typed(first)
    forgotten = serializer.loads_typed(second)
    assert serializer.loads_typed(first) is loaded
    serializer.loads_typed(third)

    assert serializer.loads_typed(first) is loaded
    assert serializer.loads_typed(second) is not forgotten

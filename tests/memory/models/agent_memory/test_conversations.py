"""The history of conversations, read from checkpoints without LangGraph."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from memrelay.memory.models.agent_memory.checkpoint_table import CheckpointTable
from memrelay.memory.models.agent_memory.conversations import delete_user_threads
from tests.memory.builders import make_store, perform
from tests.memory.models.agent_memory.checkpoint_cases import call, get, put

UID = "be9c4001"
SERIALIZER = JsonPlusSerializer()
TOOL_CALL = {"name": "f", "args": {}, "id": "c1"}
AT = {"timestamp": "2026-11-22T05:00:00.250+00:00Z"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def keep(store: Store, messages: list[BaseMessage], ident: str = "c1", **given: Any) -> None:
    put(store, ident, [SERIALIZER.dumps_typed(one)[1] for one in messages], **given)


def read(store: Store, **wanted: Any) -> Any:
    return call(store, "conversations.history", **wanted)


def texts(history: Any) -> list[tuple[str, str]]:
    return [(one.role, one.text) for one in history.messages]


def test_a_history_shows_what_was_said(store: Store) -> None:
    keep(
        store,
        [
            SystemMessage("P"),
            HumanMessage("[System instructions]", id="system_prompt_fallback"),
            HumanMessage("Is it é?", additional_kwargs=AT),
            AIMessage("", tool_calls=[TOOL_CALL]),
            ToolMessage("42", tool_call_id="c1"),
            AIMessage(
                [{"type": "text", "text": "Yes, "}, {"type": "image"}, "it is."],
                response_metadata={"created": 1_795_323_601},
            ),
            HumanMessage("Thanks"),
        ],
    )
    found = read(store, thread="t")
    assert texts(found) == [
        ("user", "Is it é?"),
        ("assistant", "Yes, it is."),
        ("user", "Thanks"),
    ]
    assert [one.timestamp for one in found.messages] == [
        "2026-11-22T05:00:00.250Z",
        "2026-11-22T05:00:01.000Z",
        "2026-11-22T05:00:01.000Z",
    ]
    assert (found.thread_id, found.has_more) == ("t", False)


def test_a_history_is_read_in_pages(store: Store) -> None:
    keep(
        store,
        [
            HumanMessage("early"),
            *(
                AIMessage(f"m{n}", additional_kwargs={"timestamp": f"2026-11-2{n}T00:00:00Z"})
                for n in range(3)
            ),
        ],
    )
    page = read(store, thread="t", limit=2)
    assert (texts(page), page.has_more) == ([("assistant", "m1"), ("assistant", "m2")], True)
    older = read(store, thread="t", limit=2, before=page.messages[0].timestamp)
    assert (texts(older), older.has_more) == ([("user", "early"), ("assistant", "m0")], False)
    assert older.messages[0].timestamp is None
    with store.transaction() as tx:
        short = perform(tx, "conversations.history", thread="t", result_bytes=300)
    assert texts(short) == texts(page) and short.has_more
    with pytest.raises(Refused, match="Invalid 'before' datetime format"):
        read(store, thread="t", before="yesterday")


def test_a_conversation_is_named_by_user_chat_and_workflow(store: Store) -> None:
    keep(store, [HumanMessage("a")], thread="chat:Ada:w1")
    keep(store, [HumanMessage("b")], thread="telegram:7:room%3A1:w1", agent="x")
    keep(store, [HumanMessage("c")], thread="user:u1:w1")
    assert texts(read(store, user="Ada", workflow="w1")) == [("user", "a")]
    assert texts(read(store, user="telegram:7", chat="room:1", workflow="w1")) == [("user", "b")]
    assert texts(read(store, user="u1", workflow="w1")) == [("user", "c")]
    unknown = read(store, user="Bob", workflow="w1")
    assert (unknown.messages, unknown.thread_id) == ((), "chat:Bob:w1")
    with pytest.raises(Refused, match="name the conversation"):
        read(store)


def test_of_two_agents_the_one_that_answered_last_is_shown(store: Store) -> None:
    keep(store, [HumanMessage("old")], "c1", agent="a")
    keep(store, [HumanMessage("new")], "c2", agent="b")
    assert texts(read(store, thread="t")) == [("user", "new")]
    assert texts(read(store, thread="t", agent="a")) == [("user", "old")]
    assert call(store, "conversations.clear", thread="t").deleted == 2
    assert texts(read(store, thread="t")) == []
    assert not get(store, "c1", agent="a").found


def test_all_threads_of_a_user_are_deleted(store: Store) -> None:
    mine = ("telegram:7:w1", "telegram:7:room:w1")
    others = ("telegram:77:w1", "email:7:w1", "telegram:7")
    for thread in (*mine, *others):
        keep(store, [HumanMessage("a")], thread=thread, agent=thread[:3])
    with store.transaction() as tx:
        assert delete_user_threads(tx.table(CheckpointTable), "telegram:7") == 2
    assert not any(read(store, thread=thread).messages for thread in mine)
    assert all(read(store, thread=thread).messages for thread in others)


def test_values_of_other_programs_are_no_error(store: Store) -> None:
    put(store, "c1", [b"\xc1", b"\x01", SERIALIZER.dumps_typed({"role": "user", "content": 7})[1]])
    assert texts(read(store, thread="t")) == [("user", "")]
    whole = SERIALIZER.dumps_typed([{"role": "assistant", "content": "hi"}])[1]
    put(store, "c2", [whole], channels=[{"name": "messages", "type": "msgpack"}])
    assert texts(read(store, thread="t")) == [("assistant", "hi")]


def test_a_history_loads_no_langgraph() -> None:
    code = (
        "import sys; from memrelay.memory.operations import all_operations; all_operations();"
        "assert not [name for name in sys.modules if name.startswith(('langgraph', 'langchain'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def erase(store: Store, text: str) -> None:
    call(store, "records.erase", text=text)


def test_an_erased_message_leaves_every_checkpoint(store: Store) -> None:
    messages = [HumanMessage("I am Ada Lovelace"), AIMessage("Hello"), HumanMessage("Bye")]
    keep(store, messages, "c1")
    keep(store, [*messages, AIMessage("See you, Ada Lovelace")], "c2", parent="c1")
    keep(store, [HumanMessage("secret")], "c3", thread="u", metadata={"name": 'Ada "Lovelace'})

    erase(store, "Ada Lovelace")
    assert texts(read(store, thread="t")) == [("assistant", "Hello"), ("user", "Bye")]
    assert get(store, "c1").channels[0].items == 2
    erase(store, 'Ada "Lovelace')
    assert not get(store, "c3", thread="u").found


def test_an_erased_call_of_a_tool_takes_its_result_along(store: Store) -> None:
    other = {"name": "g", "args": {"x": "tea"}, "id": "c2"}
    messages = [
        HumanMessage("one"),
        AIMessage("", tool_calls=[TOOL_CALL, other]),
        ToolMessage("Ada", tool_call_id="c1"),
        ToolMessage("fine", tool_call_id="c2"),
        AIMessage("done"),
    ]
    keep(store, messages)
    erase(store, "Ada")
    assert get(store).channels[0].items == 2
    keep(store, messages)
    erase(store, "tea")
    assert texts(read(store, thread="t")) == [("user", "one"), ("assistant", "done")]
    assert get(store).channels[0].items == 2

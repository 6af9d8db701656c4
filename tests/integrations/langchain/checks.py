"""MemrelayChatMessageHistory with the real langchain-core."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from killing import add_until_killed, assert_kept
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from pages import assert_example_remembers, read_program, run
from servers import Server

from memrelay import open_store
from memrelay.errors import Refused
from memrelay.integrations.langchain import MemrelayChatMessageHistory

MESSAGES: list[BaseMessage] = [
    SystemMessage("Be brief."),
    HumanMessage("I am allergic to nuts", id="h1", name="Ada"),
    HumanMessage([{"type": "text", "text": "This?"}, {"type": "image_url", "image_url": "u"}]),
    AIMessage(
        "",
        tool_calls=[{"name": "look", "args": {"x": 1.5, "deep": [[{}]]}, "id": "c1"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        response_metadata={"model": "m"},
    ),
    ToolMessage("a cake", tool_call_id="c1", artifact={"raw": ["é", None, True]}, status="error"),
    FunctionMessage("f", name="old"),
    ChatMessage("Arr", role="pirate"),
    AIMessageChunk("part"),
    AIMessage("x" * 200_000),
]
ROLES = ["system", *["user"] * 2, "assistant", *["tool"] * 2, "pirate", *["assistant"] * 2]
CHILD = """
import sys
from itertools import count
from langchain_core.messages import AIMessage, HumanMessage
from memrelay import open_store
from memrelay.integrations.langchain import MemrelayChatMessageHistory

with open_store("memory.db", embedder="none") as store:
    history = MemrelayChatMessageHistory("chat", store)
    for n in count(int(sys.argv[-1]), 2):
        history.add_messages([HumanMessage(str(n)), AIMessage(str(n + 1))])
        print(f"{n}\\n{n + 1}", flush=True)
"""


def make_bot(call: Any, **more: Any) -> RunnableWithMessageHistory:
    """Return a bot that counts the messages it gets."""
    return RunnableWithMessageHistory(
        RunnableLambda(lambda messages: AIMessage(f"{len(messages)} messages")),
        lambda session_id: MemrelayChatMessageHistory(session_id, call, **more),
    )


def in_session(name: str) -> Any:
    return {"configurable": {"session_id": name}}


def texts(messages: list[BaseMessage]) -> list[Any]:
    return [message.content for message in messages]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """Return a store, closed at the end."""
    with open_store(tmp_path / "memory.db", embedder="none") as opened:
        yield opened


def test_the_program_of_the_page_remembers_after_a_kill(tmp_path: Path) -> None:
    program = read_program("langchain")

    first = run(program, tmp_path, kill=True)
    second = run(program, tmp_path, "Which cake may I eat?")

    assert first == "I have 1 messages. The first: I am allergic to nuts.\n"
    assert second == "I have 3 messages. The first: I am allergic to nuts.\n"


def test_the_example_remembers_in_another_process(tmp_path: Path) -> None:
    assert_example_remembers("langchain_agent", tmp_path)


def test_a_kill_loses_and_doubles_nothing(tmp_path: Path) -> None:
    killed = add_until_killed(CHILD, tmp_path, batch=2)

    with open_store(tmp_path / "memory.db", embedder="none") as store:
        messages = MemrelayChatMessageHistory("chat", store).messages
    assert_kept([int(str(message.content)) for message in messages], killed)


def test_messages_come_back_equal_and_have_roles_and_texts(store: Any) -> None:
    history = MemrelayChatMessageHistory("chat", store, user="ada", agent="guide")

    history.add_messages(MESSAGES)

    assert history.messages == MESSAGES
    turns = store.turns.list(thread="chat", user="ada").items
    assert [turn.role for turn in turns] == ROLES
    assert (turns[1].content, turns[2].content, turns[-1].name) == (
        *("I am allergic to nuts", "This?", "guide"),
    )


def test_a_history_does_what_the_one_in_memory_does(store: Any) -> None:
    choose = random.Random(3)
    ours, theirs = MemrelayChatMessageHistory("chat", store), InMemoryChatMessageHistory()

    async def change_both(history: Any, step: str, chosen: list[BaseMessage]) -> list[BaseMessage]:
        if step == "add":
            history.add_messages(chosen)
        elif step == "aadd":
            await history.aadd_messages(chosen)
        elif step == "user":
            history.add_user_message("hi")
        elif step == "aclear":
            await history.aclear()
        elif step == "clear":
            history.clear()
        assert await history.aget_messages() == history.messages
        return list(history.messages)

    async def compare() -> None:
        steps = ["add"] * 5 + ["aadd"] * 5 + ["user"] * 5 + ["clear", "aclear"]
        for step in choose.choices(steps, k=60):
            chosen = choose.choices(MESSAGES, k=choose.randrange(4))
            expected = await change_both(theirs, step, chosen)
            assert await change_both(ours, step, chosen) == expected

    asyncio.run(compare())


def test_a_bot_remembers_its_sessions_and_users(store: Any) -> None:
    bot, other = make_bot(store, user="ada"), make_bot(store, user="bob", limit=1)

    answers = [bot.invoke([HumanMessage("a")], in_session("one")).content for _ in range(3)]
    begun = bot.invoke([HumanMessage("a")], in_session("two")).content
    limited = [other.invoke([HumanMessage("b")], in_session("one")).content for _ in range(3)]

    assert answers == ["1 messages", "3 messages", "5 messages"]
    assert begun == "1 messages"
    assert limited == ["1 messages", "2 messages", "2 messages"]


def test_a_bot_that_streams_is_remembered(store: Any) -> None:
    bot = make_bot(store)

    list(bot.stream([HumanMessage("a")], in_session("one")))

    history = MemrelayChatMessageHistory("one", store)
    assert texts(history.messages) == ["a", "1 messages"]


def test_clients_serve_the_methods_they_can(server: Server) -> None:
    async def talk() -> list[Any]:
        async with server.connect() as client:
            bot = make_bot(client, uid=server.uid, user="ada")
            await bot.ainvoke([HumanMessage("a")], in_session("http"))
            history = MemrelayChatMessageHistory("http", client, user="ada")
            await history.aadd_messages(MESSAGES)
            with pytest.raises(TypeError, match="use the async methods"):
                history.add_messages(MESSAGES)
            return await history.aget_messages()

    messages = asyncio.run(talk())

    assert texts(messages[:2]) == ["a", "1 messages"] and messages[2:] == MESSAGES
    with server.connect_sync() as client:
        history = MemrelayChatMessageHistory("http", client, user="ada")
        assert history.messages == messages == asyncio.run(history.aget_messages())
        history.clear()
        assert history.messages == []


def test_what_cannot_be_kept_or_read_is_refused_and_nothing_is_lost(store: Any) -> None:
    history = MemrelayChatMessageHistory("chat", store)
    history.add_user_message("hi")
    with pytest.raises(Refused, match="JSON"):
        history.add_messages([AIMessage("a"), ToolMessage("", tool_call_id="1", artifact=object())])
    assert texts(history.messages) == ["hi"]

    store.turns.add([{"role": "user", "content": "from another program"}], thread="chat")
    assert history.messages[1] == HumanMessage("from another program")
    newer = {"type": "hologram", "data": {"content": "?"}}
    added = store.turns.add([{"role": "user", "content": "?", "item": newer}], thread="chat")
    with pytest.raises(Refused, match=f"{added.guids[0]} is no message.*hologram.*update"):
        assert history.messages
    assert [turn.content for turn in store.turns.list(thread="chat").items][-1] == "?"

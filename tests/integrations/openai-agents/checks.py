"""MemrelaySession and memory_tools with the real OpenAI Agents SDK."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, Session, SessionSettings, SQLiteSession
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call
from killing import add_until_killed, assert_kept
from pages import assert_example_remembers, assert_page_remembers
from servers import Server

from memrelay import open_store
from memrelay.errors import Refused
from memrelay.integrations.openai_agents import MemrelaySession, memory_tools

USER: Any = {"role": "user", "content": "I am allergic to nuts"}
ITEMS: list[Any] = [
    USER,
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "What is this?"},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
        ],
    },
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x" * 100_000},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"a": 1.50}'},
    {"type": "function_call_output", "call_id": "c1", "output": "a cake"},
    {
        "type": "function_call_output",
        "call_id": "c2",
        "output": [{"type": "input_text", "text": ""}],
    },
    {
        "id": "__fake_id__",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [
            {"type": "output_text", "text": "A cake. \u00e9", "annotations": [], "n": 1e-7}
        ],
    },
]
# Two items per call, as a run adds a question and its answer.
CHILD = """
import asyncio, sys
from itertools import count
from memrelay import open_store
from memrelay.integrations.openai_agents import MemrelaySession

async def main():
    with open_store("memory.db", embedder="none") as store:
        session = MemrelaySession("chat", store, user="ada")
        for n in count(int(sys.argv[-1]), 2):
            await session.add_items(
                [{"role": "user", "content": str(n)}, {"role": "assistant", "content": str(n + 1)}]
            )
            print(f"{n}\\n{n + 1}", flush=True)

asyncio.run(main())
"""


def with_store(
    folder: Path, use: Callable[[Any], Any], session_id: str = "chat", **more: Any
) -> Any:
    """Return the result of an async function that takes a session on a file."""
    with open_store(folder / "memory.db", embedder="none") as store:
        return asyncio.run(use(MemrelaySession(session_id, store, **more)))


def test_the_program_of_the_page_remembers_after_a_kill(tmp_path: Path) -> None:
    assert_page_remembers("openai-agents", tmp_path, (1, 3), field="input")


def test_the_example_remembers_in_another_process(tmp_path: Path) -> None:
    assert_example_remembers("openai_agent", tmp_path)


def test_a_kill_loses_and_doubles_nothing(tmp_path: Path) -> None:
    killed = add_until_killed(CHILD, tmp_path, batch=2)

    items = with_store(tmp_path, lambda session: session.get_items(), user="ada")
    assert_kept([int(item["content"]) for item in items], killed)


def test_items_come_back_unchanged_in_another_process(tmp_path: Path) -> None:
    with_store(tmp_path, lambda session: session.add_items(ITEMS))

    assert with_store(tmp_path, lambda session: session.get_items()) == ITEMS


def test_a_session_does_what_the_sqlite_session_of_the_sdk_does(tmp_path: Path) -> None:
    choose = random.Random(7)
    theirs = SQLiteSession("chat", tmp_path / "theirs.db")

    async def compare(ours: MemrelaySession) -> None:
        assert isinstance(ours, Session)
        for _ in range(150):
            step = choose.choice(["add", "add", "pop", "get", "limit", "clear"])
            if step == "add":
                items = choose.choices(ITEMS, k=choose.randrange(4))
                await ours.add_items(items)
                await theirs.add_items(items)
            elif step == "pop":
                assert await ours.pop_item() == await theirs.pop_item()
            elif step == "limit":
                limit = choose.randrange(5)
                assert await ours.get_items(limit) == await theirs.get_items(limit)
            elif step == "get":
                assert await ours.get_items() == await theirs.get_items()
            elif choose.random() < 0.2:
                await ours.clear_session()
                await theirs.clear_session()

    with_store(tmp_path, compare)
    theirs.close()


def test_a_long_session_is_read_in_pages_and_limited_by_its_settings(tmp_path: Path) -> None:
    long: list[Any] = [{"role": "user", "content": str(n)} for n in range(2500)]

    async def use(session: MemrelaySession) -> tuple[Any, Any]:
        await session.add_items(long)
        everything = await session.get_items()
        session.session_settings = SessionSettings(limit=1200)
        return everything, await session.get_items()

    assert with_store(tmp_path, use) == (long, long[-1200:])


def test_sessions_of_two_users_with_the_same_id_are_two(tmp_path: Path) -> None:
    with_store(tmp_path, lambda session: session.add_items([USER]), user="ada")

    assert with_store(tmp_path, lambda session: session.get_items(), user="bob") == []
    with_store(tmp_path, lambda session: session.clear_session(), user="bob")
    assert with_store(tmp_path, lambda session: session.get_items(), user="ada") == [USER]


@pytest.mark.parametrize(
    "odd",
    [
        {"data": 1},
        {"type": "human", "data": {"content": "hi"}},  # LangChain
        {"role": "user", "blocks": [{"block_type": "text", "text": "hi"}]},  # LlamaIndex
        {"type": "message", "role": "user", "contents": []},  # Agent Framework
    ],
)
def test_turns_of_others_are_messages_or_refused_with_the_remedy(
    tmp_path: Path, odd: dict[str, Any]
) -> None:
    with open_store(tmp_path / "memory.db", embedder="none") as store:
        store.turns.add([{"role": "user", "content": "hi"}], thread="chat")
        store.turns.add([{"content": "hi", "item": odd}], thread="odd")

    items = with_store(tmp_path, lambda session: session.get_items())
    assert items == [{"role": "user", "content": "hi"}]
    with pytest.raises(Refused, match="use another session_id"):
        with_store(tmp_path, lambda session: session.get_items(), "odd")


@pytest.mark.parametrize("is_async", [True, False])
def test_a_run_over_http_remembers_in_the_session_and_by_tools(
    server: Server, is_async: bool
) -> None:
    user = f"user-{is_async}"

    async def talk(client: Any) -> tuple[str, list[Any]]:
        tools = memory_tools(client, user=user, agent="guide")
        writing = ScriptedModel(
            [
                [function_call("remember", {"fact": "Ada may not eat nuts"}, call_id="c1")],
                [assistant_message("Noted.")],
            ]
        )
        first = MemrelaySession("one", client, user=user, agent="guide")
        await Runner.run(Agent("guide", tools=tools, model=writing), "nuts!", session=first)
        found: list[ModelCall] = []
        reading = ScriptedModel(
            [
                [function_call("search", {"query": "What may Ada not eat?"}, call_id="c2")],
                ModelStep.respond(lambda call: found.append(call) or [assistant_message("Nuts.")]),
            ]
        )
        second = MemrelaySession("two", client, user=user)
        await Runner.run(Agent("guide", tools=tools, model=reading), "cake?", session=second)
        return found[0].input[-1]["output"], await first.get_items()

    async def talk_async() -> tuple[str, list[Any]]:
        async with server.connect() as client:
            return await talk(client)

    if is_async:
        result, items = asyncio.run(talk_async())
    else:
        with server.connect_sync() as client:
            result, items = asyncio.run(talk(client))

    assert "Ada may not eat nuts" in result and "guide" in result
    assert [item.get("role") or item["type"] for item in items] == [
        *("user", "function_call", "function_call_output", "assistant")
    ]


def test_a_fact_that_cannot_be_kept_is_an_answer_for_the_model(tmp_path: Path) -> None:
    model = ScriptedModel(
        [[function_call("remember", {"fact": ""}, call_id="c1")], [assistant_message("Sorry.")]]
    )

    async def talk(session: MemrelaySession, store: Any) -> list[Any]:
        agent = Agent("guide", tools=memory_tools(store), model=model)
        await Runner.run(agent, "remember nothing", session=session)
        return await session.get_items()

    with open_store(tmp_path / "memory.db", embedder="none") as store:
        items = asyncio.run(talk(MemrelaySession("chat", store), store))

    assert items[2]["output"].startswith("Error: ")

"""The chat stores, the memory block and the tools with the real LlamaIndex."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from killing import add_until_killed, assert_kept
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import (
    AudioBlock,
    CacheControl,
    CachePoint,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from pages import EXAMPLES, assert_page_remembers, run
from servers import Server

from memrelay import open_store
from memrelay.errors import Refused
from memrelay.integrations.llama_index import (
    MemrelayAsyncChatStore,
    MemrelayChatStore,
    MemrelayMemoryBlock,
    memory_tools,
)

CALL = {"tool_call_id": "c1", "tool_name": "look", "tool_kwargs": {"a": 1.5, "b": [None, True]}}
MESSAGES = [
    ChatMessage(role="user", content="I am allergic to nuts"),
    ChatMessage(role="system", content="é\n\u2028"),
    ChatMessage(
        role="user",
        blocks=[
            TextBlock(text="What is this?"),
            ImageBlock(image=b"\x89PNG" + b"x" * 100_000, detail="low"),
            AudioBlock(audio=b"RIFF", format="wav"),
            DocumentBlock(data=b"%PDF", title="a.pdf"),
            CachePoint(cache_control=CacheControl(type="ephemeral", ttl="5m")),
        ],
    ),
    ChatMessage(
        role="assistant",
        blocks=[
            ThinkingBlock(content="hm", additional_information={"signature": "s"}),
            ToolCallBlock(**CALL),
        ],
        additional_kwargs={"tool_calls": [{"id": "c1", "n": 1e-7}]},
    ),
    ChatMessage(role="tool", content="a cake", additional_kwargs={"tool_call_id": "c1"}),
    ChatMessage(role="assistant", content=""),
]
CHILD = """
import asyncio, sys
from itertools import count
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import Memory
from memrelay import open_store
from memrelay.integrations.llama_index import MemrelayAsyncChatStore

async def main():
    with open_store("memory.db", embedder="none") as store:
        chats = MemrelayAsyncChatStore(store, user="ada")
        memory = Memory.from_defaults(session_id="chat", chat_store=chats, token_limit=100)
        for n in count(int(sys.argv[-1]), 2):
            question = ChatMessage(role="user", content=str(n))
            answer = ChatMessage(role="assistant", content=str(n + 1))
            await memory.aput_messages([question, answer])
            print(f"{n}\\n{n + 1}", flush=True)

asyncio.run(main())
"""
SETTER = """
import sys
from itertools import count
from llama_index.core.llms import ChatMessage
from memrelay import open_store
from memrelay.integrations.llama_index import MemrelayChatStore

with open_store("memory.db", embedder="none") as store:
    chats = MemrelayChatStore(store)
    for n in count(int(sys.argv[-1])):
        chats.set_messages("chat", [ChatMessage(content=f"{n} {part}") for part in range(20)])
        print(n, flush=True)
"""


def with_store(folder: Path, use: Callable[[Any], Any], **more: Any) -> Any:
    """Return the result of an async function that takes a chat store on a file."""
    with open_store(folder / "memory.db", embedder="none") as store:
        return asyncio.run(use(MemrelayAsyncChatStore(store, **more)))


def test_the_program_of_the_page_remembers_after_a_kill(tmp_path: Path) -> None:
    assert_page_remembers("llama-index", tmp_path, (2, 4), address="OPENAI_API_BASE")


def test_the_example_remembers_in_another_process_and_in_another_session(tmp_path: Path) -> None:
    agent = EXAMPLES / "llama_index_agent/agent.py"

    run(agent, tmp_path, "I am allergic to nuts.")
    same = run(agent, tmp_path, "Which cake may I eat?")
    other = run(agent, tmp_path, "--session", "party", "What about nuts?")

    assert same == "Before that, you said: I am allergic to nuts.\n"
    assert '{"content":"I am allergic to nuts.","said_by":"ada"' in other


def test_a_kill_loses_and_doubles_nothing(tmp_path: Path) -> None:
    killed = add_until_killed(CHILD, tmp_path, batch=2, rounds=3)

    # Most of them have left the short-term memory.
    messages = with_store(tmp_path, lambda chats: chats.get_messages("chat", None), user="ada")
    active = with_store(tmp_path, lambda chats: chats.count_messages("chat"), user="ada")
    assert_kept([int(message.content) for message in messages], killed)
    assert active < len(messages) / 2


def test_a_kill_while_messages_are_replaced_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    killed = add_until_killed(SETTER, tmp_path, rounds=2)

    messages = with_store(tmp_path, lambda chats: chats.get_messages("chat"))
    n = int(messages[0].content.split()[0])
    assert [message.content for message in messages] == [f"{n} {part}" for part in range(20)]
    assert n in (killed.acknowledged[-1], killed.unsure[-1][0])


def test_messages_come_back_equal_in_another_process(tmp_path: Path) -> None:
    with_store(tmp_path, lambda chats: chats.add_messages("chat", MESSAGES))

    stored = with_store(tmp_path, lambda chats: chats.get_messages("chat"))
    assert [one.model_dump() for one in stored] == [
        ChatMessage.model_validate(one.model_dump(mode="json")).model_dump() for one in MESSAGES
    ]
    assert stored[0] == MESSAGES[0] and stored[3:] == MESSAGES[3:]


def test_the_store_does_what_the_sql_store_of_llama_index_does(tmp_path: Path) -> None:
    choose = random.Random(7)
    theirs = SQLAlchemyChatStore("peer", f"sqlite+aiosqlite:///{tmp_path}/theirs.db")
    statuses = [*MessageStatus, None]

    async def change(chats: Any, step: str, key: str, numbers: list[int]) -> Any:
        messages = [MESSAGES[n % len(MESSAGES)] for n in numbers]
        status = statuses[numbers[0] % 2] if numbers else MessageStatus.ACTIVE
        if step == "add":
            return await chats.add_messages(key, messages, status)
        if step == "set":
            return await chats.set_messages(key, messages, status)
        if step == "delete":
            return await chats.delete_messages(key, statuses[len(numbers) % 3])
        return await getattr(chats, f"{step}_oldest_messages")(key, len(numbers))

    async def compare(ours: Any) -> None:
        for _ in range(60):
            step = choose.choice(["add", "add", "add", "set", "delete", "delete", "archive"])
            key, numbers = choose.choice("ab"), choose.choices(range(99), k=choose.randrange(1, 5))
            both = [await change(chats, step, key, numbers) for chats in (ours, theirs)]
            assert both[0] == both[1]
            for status in statuses:
                window = {"limit": choose.choice([None, 2]), "offset": choose.choice([None, 1])}
                if window["limit"] is None:  # SQLite has no offset without a limit
                    window["offset"] = None
                stored = [await one.get_messages(key, status, **window) for one in (ours, theirs)]
                assert stored[0] == stored[1]
                assert await ours.count_messages(key, status) == await theirs.count_messages(
                    key, status
                )
            assert await ours.get_keys() == sorted(await theirs.get_keys())

    with_store(tmp_path, compare)


def test_the_store_of_a_buffer_does_what_the_simple_store_does(tmp_path: Path) -> None:
    choose = random.Random(7)
    theirs = SimpleChatStore()

    with open_store(tmp_path / "memory.db", embedder="none") as store:
        ours = MemrelayChatStore(store)
        for _ in range(80):
            step = choose.choice(["add", "add", "add", "set", "one", "last", "get"])
            some = choose.choices(MESSAGES, k=choose.randrange(1, 4))
            position = choose.randrange(4)
            if step == "add":
                results = [chats.add_message("chat", some[0]) for chats in (ours, theirs)]
            elif step == "set":
                results = [chats.set_messages("chat", [*some]) for chats in (ours, theirs)]
            elif step == "one":
                results = [chats.delete_message("chat", position) for chats in (ours, theirs)]
            elif step == "last" and theirs.get_messages("chat"):
                results = [chats.delete_last_message("chat") for chats in (ours, theirs)]
            else:
                results = [chats.delete_messages("chat") or None for chats in (ours, theirs)]
            assert results[0] == results[1]
            assert ours.get_messages("chat") == theirs.get_messages("chat")
        assert ours.delete_last_message("none") is None and ours.get_keys() in ([], ["chat"])


def test_a_buffer_keeps_its_messages_and_the_agent_uses_it(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(messages: list[ChatMessage], **_: Any) -> ChatMessage:
        asked.append(str(messages))
        return ChatMessage(role="assistant", content="ok")

    for text in ("nuts!", "cake?"):
        with open_store(tmp_path / "memory.db", embedder="none") as store:
            chats = MemrelayChatStore(store, user="ada")
            memory = ChatMemoryBuffer.from_defaults(chat_store=chats, chat_store_key="chat")
            agent = FunctionAgent(llm=MockFunctionCallingLLM(response_generator=answer))
            assert str(asyncio.run(_run(agent, text, memory))) == "ok"

    assert "nuts!" in asked[-1] and "ok" in asked[-1] and "cake?" in asked[-1]


def test_the_block_finds_facts_and_other_sessions_but_not_what_the_prompt_has(
    tmp_path: Path,
) -> None:
    with open_store(tmp_path / "memory.db", embedder="none") as store:

        async def use() -> list[str]:
            chats = MemrelayAsyncChatStore(store, user="ada")
            for session, text in (("one", "The cake has nuts"), ("two", "Which nuts may I eat")):
                await chats.add_message(session, ChatMessage(role="user", content=text))
            await chats.add_message("two", ChatMessage(role="user", content="Old nuts"))
            await MemrelayAsyncChatStore(store, user="bob").add_message(
                "one", ChatMessage(role="user", content="Bob likes nuts")
            )
            block = MemrelayMemoryBlock(store, user="ada")
            memory = Memory.from_defaults("two", chat_store=chats, memory_blocks=[block])
            before = await memory.aget()
            await chats.archive_oldest_messages("two", 1)
            return [str(one) for one in before + await memory.aget()]

        store.records.create("Ada must not eat nuts", kind="fact", owner="ada")
        system, one, two, after, rest = asyncio.run(use())

    assert "Ada must not eat nuts" in system and "The cake has nuts" in system
    assert "Which nuts may I eat" not in system and "Bob" not in system
    assert (one, two, rest) == ("user: Which nuts may I eat", "user: Old nuts", "user: Old nuts")
    assert "Which nuts may I eat" in after


def test_the_block_keeps_what_leaves_the_memory_of_another_chat_store(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db", embedder="none") as store:

        async def use() -> None:
            block = MemrelayMemoryBlock(store, user="ada", accept_short_term_memory=True)
            memory = Memory.from_defaults("chat", token_limit=60, memory_blocks=[block])
            for n in range(30):
                await memory.aput(ChatMessage(role="user", content=f"message {n}"))

        asyncio.run(use())
        kept = store.turns.list(thread="chat", user="ada").items

    assert [one.content for one in kept] == [f"message {n}" for n in range(len(kept))]
    assert len(kept) > 10


def test_keys_of_two_users_with_the_same_name_are_two(tmp_path: Path) -> None:
    with_store(tmp_path, lambda chats: chats.add_message("chat", MESSAGES[0]), user="ada")

    assert with_store(tmp_path, lambda chats: chats.get_messages("chat"), user="bob") == []
    with_store(tmp_path, lambda chats: chats.delete_messages("chat"), user="bob")
    kept = with_store(tmp_path, lambda chats: chats.get_messages("chat"), user="ada")
    assert kept == MESSAGES[:1]


def test_turns_of_others_are_messages_or_refused_with_the_remedy(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db", embedder="none") as store:
        store.turns.add([{"role": "narrator", "content": "hi"}], thread="chat")
        store.turns.add(
            [{"content": "x", "item": {"blocks": [{"block_type": "new"}]}}], thread="odd"
        )

    assert with_store(tmp_path, lambda chats: chats.get_messages("chat")) == [
        ChatMessage(role="user", content="hi")
    ]
    with pytest.raises(Refused, match="use another key"):
        with_store(tmp_path, lambda chats: chats.get_messages("odd"))
    with pytest.raises(Refused, match="use another key"):
        with_store(tmp_path, lambda chats: chats.delete_oldest_messages("odd", 1))
    assert with_store(tmp_path, lambda chats: chats.count_messages("odd")) == 1


@pytest.mark.parametrize("is_async", [True, False])
def test_an_agent_over_http_remembers_in_the_session_and_by_tools(
    server: Server, is_async: bool
) -> None:
    user = f"user-{is_async}"
    prompts: list[str] = []

    def answer(messages: list[ChatMessage], **_: Any) -> ChatMessage:
        prompts.append(str(messages))
        if "nuts!" in prompts[-1] and messages[-1].role != "tool":
            call = {"tool_call_id": "c", "tool_name": "remember"}
            call |= {"tool_kwargs": {"fact": "Ada may not eat nuts"}}
            return ChatMessage(role="assistant", blocks=[ToolCallBlock(**call)])
        return ChatMessage(role="assistant", content="ok")

    async def talk(client: Any) -> list[ChatMessage]:
        chats = MemrelayAsyncChatStore(client, user=user, agent="guide")
        for session, text in (("one", "nuts!"), ("two", "May I eat nuts?")):
            block = MemrelayMemoryBlock(client, user=user)
            memory = Memory.from_defaults(session, chat_store=chats, memory_blocks=[block])
            llm = MockFunctionCallingLLM(response_generator=answer)
            agent = FunctionAgent(llm=llm, tools=memory_tools(client, user=user, agent="guide"))
            await agent.run(text, memory=memory)
        return await chats.get_messages("one")

    async def talk_async() -> list[ChatMessage]:
        async with server.connect() as client:
            return await talk(client)

    if is_async:
        messages = asyncio.run(talk_async())
    else:
        with server.connect_sync() as client:
            messages = asyncio.run(talk(client))

    assert [one.role.value for one in messages] == ["user", "assistant", "tool", "assistant"]
    assert "Ada may not eat nuts" in prompts[-1]


async def _run(agent: FunctionAgent, text: str, memory: Any) -> Any:
    return await agent.run(text, memory=memory)

"""MemrelayConversationStore and memory_toolset with the real Pydantic AI."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from killing import add_until_killed, assert_kept
from pages import assert_example_remembers, read_program, run
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryImage,
    ImageUrl,
    ModelRequest,
    SystemPromptPart,
    ThinkingPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage, RunUsage
from servers import Server

from memrelay import open_store
from memrelay.errors import Refused
from memrelay.integrations.pydantic_ai import MemrelayConversationStore, memory_toolset

MESSAGES: list[ModelMessage] = [
    ModelRequest([SystemPromptPart("Be brief."), UserPromptPart("I am allergic to nuts")]),
    ModelResponse(
        [ThinkingPart("hm", signature="s"), ToolCallPart("look", {"x": 1.5}, "c1")],
        usage=RequestUsage(input_tokens=3),
        model_name="m",
        provider_details={"a": [1, None]},
    ),
    ModelRequest(
        [
            ToolReturnPart("look", {"cake": ["é", True]}, "c1", metadata={"k": "v"}),
            UserPromptPart(
                ["And?", ImageUrl("https://x"), BinaryImage(b"\xff\x00", media_type="image/png")]
            ),
        ]
    ),
    ModelResponse([TextPart("x" * 200_000)], finish_reason="stop"),
]
# A request and a response per call, as a run adds them.
CHILD = """
import asyncio, sys
from itertools import count
from memrelay import open_store
from memrelay.integrations.pydantic_ai import MemrelayConversationStore
from pydantic_ai import ModelRequest, ModelResponse, TextPart
from pydantic_ai.conversation import Conversation

async def main():
    with open_store("memory.db", embedder="none") as file:
        store = MemrelayConversationStore(file)
        chat = await store.load("chat") or Conversation(conversation_id="chat")
        for n in count(int(sys.argv[-1]), 2):
            chat.messages.append(ModelRequest.user_text_prompt(str(n)))
            chat.messages.append(ModelResponse([TextPart(str(n + 1))]))
            await store.save(chat)
            print(f"{n}\\n{n + 1}", flush=True)

asyncio.run(main())
"""


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[ConversationStore]:
    """Return a conversation store on a file."""
    with open_store(folder / "memory.db", embedder="none") as file:
        yield MemrelayConversationStore(file, agent="guide")


def text_of(message: ModelMessage) -> str:
    return str(getattr(message.parts[0], "content", ""))


def test_the_program_of_the_page_remembers_after_a_kill(tmp_path: Path) -> None:
    program = read_program("pydantic-ai")

    first = run(program, tmp_path, kill=True)
    second = run(program, tmp_path, "Which cake may I eat?")

    assert first == "success (no tool calls), message 2\n"
    assert second == "success (no tool calls), message 4\n"


def test_the_example_remembers_in_another_process(tmp_path: Path) -> None:
    assert_example_remembers("pydantic_ai_agent", tmp_path)


def test_a_kill_loses_and_doubles_nothing(tmp_path: Path) -> None:
    killed = add_until_killed(CHILD, tmp_path, batch=2)

    async def read() -> list[int]:
        async with opened(tmp_path) as store:
            chat = await store.load("chat")
            assert chat is not None
            return [int(text_of(message)) for message in chat.messages]

    assert_kept(asyncio.run(read()), killed)


def test_a_conversation_comes_back_equal_and_its_turns_can_be_searched(tmp_path: Path) -> None:
    chat = Conversation(
        messages=MESSAGES, conversation_id="chat", usage=RunUsage(requests=2, tool_calls=1)
    )

    async def save() -> None:
        async with opened(tmp_path) as store:
            await store.save(chat, scope="ada")

    async def load() -> tuple[Conversation | None, Conversation | None]:
        async with opened(tmp_path) as store:
            return await store.load("chat", scope="ada"), await store.load("chat", scope="bob")

    asyncio.run(save())
    assert asyncio.run(load()) == (chat, None)
    with open_store(tmp_path / "memory.db", embedder="none") as file:
        turns = file.turns.list(thread="chat", user="ada").items
        assert [(turn.role, turn.name) for turn in turns] == [
            *(("user", "ada"), ("assistant", "guide"), ("user", "ada"), ("assistant", "guide")),
        ]
        assert turns[0].content == "I am allergic to nuts"
        assert turns[2].content == '{"cake":["é",true]}\nAnd?'


def test_a_store_does_what_the_one_in_memory_does(tmp_path: Path) -> None:
    async def use(store: ConversationStore) -> list[Any]:
        """Return what a number of steps, the same for each store, see and raise."""
        choose, seen = random.Random(5), list[Any]()
        for number in range(250):
            name, other = f"c{choose.randrange(4)}", f"c{choose.randrange(4)}"
            step = choose.choice(
                ["save"] * 4 + ["fork", "branch", "delete", "list", "rewrite", "new"]
            )
            at, prompt = choose.randrange(4), ModelRequest.user_text_prompt(f"{number}")
            chat = await store.load(name)
            try:
                if step == "new":
                    await store.save(Conversation(conversation_id=name))
                elif step == "delete":
                    await store.delete(name)
                elif step == "list":
                    seen.append(sorted(c.conversation_id for c in await store.list_conversations()))
                elif step == "fork":
                    forked = await store.fork(name, at=at, new_conversation_id=other)
                    seen.append(forked.messages)
                elif chat is None:
                    seen.append(None)
                elif step == "branch":
                    assert chat.revision
                    left = await store.branch(name, at=at, expected_revision=chat.revision)
                    seen.append(left.messages)
                elif step == "rewrite":
                    chat.messages[:1] = [prompt]
                    await store.save(chat)
                else:
                    chat.messages += [prompt, ModelResponse([TextPart(f"to {number}")])]
                    chat.usage.requests += 1
                    await store.save(chat, scope=choose.choice([None, None, "ada"]))
            except UserError as error:
                seen.append((type(error), str(error).replace(name, "")))
            loaded = [await store.load(f"c{n}", limit=choose.choice([None, 2])) for n in range(4)]
            for one in loaded:
                seen.append(one and (one.messages, one.usage, one.conversation_id))
        return seen

    async def compare() -> tuple[list[Any], list[Any]]:
        async with opened(tmp_path) as store:
            return await use(store), await use(InMemoryConversationStore())

    ours, theirs = asyncio.run(compare())
    assert len(ours) > 1000 and plain(ours) == plain(theirs)


def plain(value: Any) -> Any:
    """Return a value without the times of its messages."""
    if isinstance(value, ModelRequest | ModelResponse):
        return text_of(value)
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def test_of_two_that_save_at_once_one_has_a_conflict_and_leaves_nothing(server: Server) -> None:
    async def talk() -> tuple[list[Any], list[str], list[str]]:
        async with server.connect() as client:
            stores = [MemrelayConversationStore(client, uid=server.uid) for _ in range(8)]
            chats = [Conversation(conversation_id="race") for _ in stores]
            for number, chat in enumerate(chats):
                chat.messages.append(ModelRequest.user_text_prompt(f"{number}"))
            saves = [store.save(chat) for store, chat in zip(stores, chats, strict=True)]
            results = await asyncio.gather(*saves, return_exceptions=True)
            loaded = await stores[0].load("race")
            assert loaded is not None
            turns = (await client.turns.list(server.uid, thread="race")).items
            return (
                results,
                [text_of(message) for message in loaded.messages],
                [turn.content for turn in turns],
            )

    results, loaded, turns = asyncio.run(talk())

    assert sum(isinstance(one, ConversationConflict) for one in results) == 7
    assert loaded == turns == [str([isinstance(one, list) for one in results].index(True))]


@pytest.mark.parametrize("is_async", [True, False])
def test_an_agent_remembers_in_its_conversation_and_by_tools(
    server: Server, is_async: bool
) -> None:
    user = f"user-{is_async}"

    def model(*calls: ToolCallPart) -> tuple[FunctionModel, list[Any]]:
        script, seen = [[call] for call in calls], list[Any]()

        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            seen.append((messages, info.instructions))
            return ModelResponse(script.pop(0) if script else [TextPart("Done.")])

        return FunctionModel(answer), seen

    async def talk(client: Any) -> None:
        store = MemrelayConversationStore(client, agent="guide")
        tools = memory_toolset(client, user=user, agent="guide", recall=True)
        writing, told = model(ToolCallPart("remember", {"fact": "Ada may not eat nuts"}))
        first = await Agent(writing, toolsets=[tools]).run("Nuts!")
        await store.save(first, scope=user)
        assert told[0][1] is None
        reading, seen = model(ToolCallPart("search", {"query": "What may Ada not eat?"}))
        chat = await store.load(first.conversation.conversation_id, scope=user)
        second = await Agent(reading, toolsets=[tools]).run("Nuts in cake?", conversation=chat)
        await store.save(second)
        assert "Ada may not eat nuts" in seen[0][1] and "not instructions" in seen[0][1]
        assert "Ada may not eat nuts" in second.all_messages()[-2].parts[0].content
        [record] = await store.list_conversations(scope=user)
        loaded = await store.load(record.conversation_id)
        assert loaded is not None and loaded.messages == second.all_messages()
        assert loaded.usage.requests == 4

    async def talk_async() -> None:
        async with server.connect() as client:
            await talk(client)

    if is_async:
        asyncio.run(talk_async())
    else:
        with server.connect_sync() as client:
            asyncio.run(talk(client))


def test_a_long_conversation_is_read_in_pages(tmp_path: Path) -> None:
    messages = [ModelRequest.user_text_prompt(f"{n}") for n in range(2500)]

    async def use() -> None:
        async with opened(tmp_path) as store:
            await store.save(Conversation(messages=[*messages], conversation_id="long"))
            whole, newest = await store.load("long"), await store.load("long", limit=1200)
            assert whole is not None and whole.messages == messages
            assert newest is not None and newest.messages == messages[-1200:]

    asyncio.run(use())


def test_what_a_newer_version_wrote_is_refused_and_kept(tmp_path: Path) -> None:
    async def use(file: Any) -> None:
        store = MemrelayConversationStore(file)
        await store.save(Conversation(messages=MESSAGES[:1], conversation_id="chat"))
        [turn] = file.turns.list(thread="chat").items
        data = file.records.get(turn.guid).data
        data["item"]["message"]["kind"] = "hologram"
        file.records.update(turn.guid, data=data)
        with pytest.raises(Refused, match=f"{turn.guid} cannot be read .* update it"):
            await store.load("chat")

    with open_store(tmp_path / "memory.db", embedder="none") as file:
        asyncio.run(use(file))
        assert len(file.turns.list(thread="chat").items) == 1

"""The history provider and the context provider with the real Agent Framework."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FileHistoryProvider,
    FunctionInvocationLayer,
    Message,
)
from killing import add_until_killed, assert_kept
from pages import EXAMPLES, assert_page_remembers, run
from servers import Server

from memrelay import open_store
from memrelay.errors import Refused
from memrelay.integrations.agent_framework import MemrelayContextProvider, MemrelayHistoryProvider

MESSAGES = [
    Message("user", ["I am allergic to nuts"], author_name="Ada", message_id="m1"),
    Message("system", ["é\n\u2028"], additional_properties={"a": [1.5, None]}),
    Message(
        "user",
        [
            Content.from_text("What is this?"),
            Content.from_data(data=b"\x89PNG" + b"x" * 100_000, media_type="image/png"),
            Content.from_uri("https://example.org/a.png", media_type="image/png"),
        ],
    ),
    Message(
        "assistant",
        [
            Content.from_text_reasoning(text="hm"),
            Content.from_function_call("c1", "look", arguments={"a": 1e-7}),
        ],
    ),
    Message("tool", [Content.from_function_result("c1", result={"cake": [None, True]})]),
    Message("assistant", [Content.from_text("A cake."), Content.from_usage({"n": 1})]),
    Message("assistant", []),
]
CHILD = """
import asyncio, sys
from itertools import count
from agent_framework import Message
from memrelay import open_store
from memrelay.integrations.agent_framework import MemrelayHistoryProvider

async def main():
    with open_store("memory.db", embedder="none") as store:
        history = MemrelayHistoryProvider(store, user="ada")
        for n in count(int(sys.argv[-1]), 2):
            messages = [Message("user", [str(n)]), Message("assistant", [str(n + 1)])]
            await history.save_messages("chat", messages)
            print(f"{n}\\n{n + 1}", flush=True)

asyncio.run(main())
"""


class Model(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Answers with what a function makes of the messages, and notes their texts."""

    def __init__(self, answer: Callable[[Sequence[Message]], Message]) -> None:
        super().__init__()
        self.answer, self.asked = answer, list[str]()

    async def _inner_get_response(
        self, *, messages: Sequence[Message], options: Mapping[str, Any], **kwargs: Any
    ) -> ChatResponse:
        self.asked.append("\n".join(f"{one.role}: {one.text}" for one in messages))
        return ChatResponse(messages=[self.answer(messages)])


def say(text: str) -> Callable[[Sequence[Message]], Message]:
    return lambda messages: Message("assistant", [text])


def with_store(folder: Path, use: Callable[[Any], Any], **more: Any) -> Any:
    """Return the result of an async function that takes a history provider on a file."""
    with open_store(folder / "memory.db", embedder="none") as store:
        return asyncio.run(use(MemrelayHistoryProvider(store, **more)))


def as_json(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [message.to_dict() for message in messages]


def test_the_program_of_the_page_remembers_after_a_kill(tmp_path: Path) -> None:
    assert_page_remembers("agent-framework", tmp_path, (2, 4))


def test_the_example_remembers_in_another_process_and_in_another_session(tmp_path: Path) -> None:
    agent = EXAMPLES / "agent_framework_agent/agent.py"

    run(agent, tmp_path, "I am allergic to nuts.")
    same = run(agent, tmp_path, "Which cake may I eat?")
    other = run(agent, tmp_path, "--session", "party", "What about nuts?")

    assert same == "Before that, you said: I am allergic to nuts.\n"
    assert '{"content":"I am allergic to nuts.","said_by":"ada"' in other


def test_a_kill_loses_and_doubles_nothing(tmp_path: Path) -> None:
    killed = add_until_killed(CHILD, tmp_path, batch=2)

    messages = with_store(tmp_path, lambda history: history.get_messages("chat"), user="ada")
    assert_kept([int(message.text) for message in messages], killed)


def test_messages_come_back_equal_in_another_process(tmp_path: Path) -> None:
    with_store(tmp_path, lambda history: history.save_messages("chat", MESSAGES))

    stored = with_store(tmp_path, lambda history: history.get_messages("chat"))
    assert as_json(stored) == as_json(MESSAGES)


def test_a_provider_does_what_the_file_provider_of_the_framework_does(tmp_path: Path) -> None:
    choose = random.Random(7)
    theirs = FileHistoryProvider(tmp_path / "theirs")

    async def compare(ours: MemrelayHistoryProvider) -> None:
        for n in range(80):
            session = choose.choice(["a", "b/c", None])
            new = [Message("user", [str(n)]), Message("assistant", ["ok"], message_id=str(n))]
            if choose.random() < 0.3:  # a client that sends the whole conversation
                new = [*await theirs.get_messages(session), *new]
            for provider in (ours, theirs):
                await provider.save_messages(session, new)
            stored = [await one.get_messages(session) for one in (ours, theirs)]
            assert as_json(stored[0]) == as_json(stored[1])

    with_store(tmp_path, compare)


def test_people_and_models_may_repeat_themselves(tmp_path: Path) -> None:
    async def use(history: MemrelayHistoryProvider) -> list[str]:
        for _ in range(3):
            await history.save_messages(
                "chat", [Message("user", ["a"]), Message("assistant", ["b"])]
            )
        return [one.text for one in await history.get_messages("chat")]

    assert with_store(tmp_path, use) == ["a", "b"] * 3


def test_sessions_of_two_users_with_the_same_id_are_two(tmp_path: Path) -> None:
    with_store(tmp_path, lambda history: history.save_messages("chat", MESSAGES), user="ada")

    assert with_store(tmp_path, lambda history: history.get_messages("chat"), user="bob") == []


def test_turns_of_others_are_messages_or_refused_with_the_remedy(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db", embedder="none") as store:
        store.turns.add([{"role": "user", "content": "hi"}], thread="chat")
        store.turns.add([{"content": "x", "item": {"type": "message", "text": 1}}], thread="odd")
        store.turns.add([{"content": "x", "item": ["x"]}], thread="list")

    (message,) = with_store(tmp_path, lambda history: history.get_messages("chat"))
    assert (message.role, message.text) == ("user", "hi")
    for session in ("odd", "list"):
        with pytest.raises(Refused, match="use another session"):
            with_store(tmp_path, lambda history, name=session: history.get_messages(name))


def test_the_memory_has_other_sessions_and_facts_but_not_what_the_prompt_has(
    tmp_path: Path,
) -> None:
    model = Model(say("ok"))
    with open_store(tmp_path / "memory.db", embedder="none") as store:

        async def use() -> None:
            providers = [
                MemrelayHistoryProvider(store, user="ada"),
                MemrelayContextProvider(store, user="ada", tools=False),
            ]
            agent = Agent(model, context_providers=providers)
            for session, text in (("one", "The cake has nuts"), ("two", "nuts and more nuts")):
                await agent.run(text, session=AgentSession(session_id=session))
            await agent.run("Which nuts?", session=AgentSession(session_id="two"))

        store.records.create("Ada must not eat nuts", kind="fact", owner="ada")
        store.records.create("Bob likes nuts", kind="fact", owner="bob")
        asyncio.run(use())
        kept = store.turns.list(thread="two", user="ada").items

    asked = model.asked[-1]
    assert "Ada must not eat nuts" in asked and "The cake has nuts" in asked
    assert asked.count("nuts and more nuts") == 1 and "Bob" not in asked
    assert [one.content for one in kept] == ["nuts and more nuts", "ok", "Which nuts?", "ok"]


@pytest.mark.parametrize("each_call", [True, False])
@pytest.mark.parametrize("is_async", [True, False])
def test_an_agent_over_http_remembers_in_the_session_and_by_tools(
    server: Server, is_async: bool, each_call: bool
) -> None:
    user = f"user-{is_async}-{each_call}"

    def answer(messages: Sequence[Message]) -> Message:
        if "nuts!" not in messages[-1].text:
            return Message("assistant", ["ok"])
        call = Content.from_function_call("c", "remember", arguments={"fact": "Ada eats no nuts"})
        return Message("assistant", [call])

    model = Model(answer)

    async def talk(client: Any) -> list[Message]:
        history = MemrelayHistoryProvider(client, user=user, agent="guide")
        memory = MemrelayContextProvider(client, user=user, agent="guide")
        agent = Agent(
            model,
            context_providers=[history, memory],
            require_per_service_call_history_persistence=each_call,
        )
        for session, text in (("one", "nuts!"), ("one", "thanks"), ("two", "May I eat nuts?")):
            await agent.run(text, session=AgentSession(session_id=session))
        return await history.get_messages("one")

    async def talk_async() -> list[Message]:
        async with server.connect() as client:
            return await talk(client)

    if is_async:
        messages = asyncio.run(talk_async())
    else:
        with server.connect_sync() as client:
            messages = asyncio.run(talk(client))

    roles = ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert [one.role for one in messages] == roles
    assert "Ada eats no nuts" in model.asked[-1]

"""The session manager and the memory store with the real Strands Agents."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from killing import add_until_killed, assert_kept
from pages import EXAMPLES, assert_page_remembers, run
from servers import Server
from strands import Agent
from strands.memory import MemoryManager
from strands.models import Model
from strands.multiagent import GraphBuilder
from strands.session import FileSessionManager, RepositorySessionManager
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from memrelay import open_store
from memrelay.errors import Refused
from memrelay.integrations.strands import (
    MemrelayMemoryStore,
    MemrelaySessionManager,
    MemrelaySessionRepository,
)

MESSAGES: list[Any] = [
    {"role": "user", "content": [{"text": "I am allergic to nuts"}, {"text": "é\n\u2028"}]},
    {
        "role": "user",
        "content": [{"image": {"format": "png", "source": {"bytes": b"\x89PNG" + b"x" * 99_999}}}],
    },
    {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
            {"toolUse": {"toolUseId": "c1", "name": "look", "input": {"a": [1.5, None, 1e-7]}}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"toolResult": {"toolUseId": "c1", "status": "success", "content": [{"json": {}}]}}
        ],
    },
    {"role": "assistant", "content": [{"text": "A cake."}]},
]
CHILD = """
import sys
from itertools import count
from strands import Agent
from memrelay import open_store
from memrelay.integrations.strands import MemrelaySessionManager

with open_store("memory.db", embedder="none") as store:
    session = MemrelaySessionManager("chat", store, user="ada")
    agent = Agent(agent_id="guide", session_manager=session, callback_handler=None)
    for n in count(int(sys.argv[-1])):
        message = {"role": "user", "content": [{"text": str(n)}]}
        session.append_message(message, agent)
        agent.state.set("n", n)
        session.sync_agent(agent)
        print(n, flush=True)
"""


class Stub(Model):
    """Answers with what a function makes of the messages, and notes what it is asked."""

    def __init__(self, answer: Callable[[list[Any]], Any]) -> None:
        self.answer, self.asked = answer, list[list[Any]]()

    async def stream(self, messages: Any, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
        self.asked.append([*messages])
        answer = self.answer(messages)
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(answer, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": answer}}}
        else:
            name, given = answer
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": "c"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": given}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(answer, str) else "tool_use"}}

    def structured_output(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        return {}

    def update_config(self, **model_config: Any) -> None:
        """Ignore it."""


def texts(messages: Any) -> list[str]:
    return [part["text"] for one in messages for part in one["content"] if "text" in part]


def test_the_program_of_the_page_remembers_after_a_kill(tmp_path: Path) -> None:
    assert_page_remembers("strands", tmp_path, (2, 4))


def test_the_example_remembers_in_another_process_and_in_another_session(tmp_path: Path) -> None:
    agent = EXAMPLES / "strands_agent/agent.py"

    run(agent, tmp_path, "I am allergic to nuts.")
    same = run(agent, tmp_path, "Which cake may I eat?")
    other = run(agent, tmp_path, "--session", "party", "What about nuts?")

    assert same == "Before that, you said: I am allergic to nuts.\n"
    assert '<entry source="memrelay">I am allergic to nuts.</entry>' in other


def test_a_kill_loses_and_doubles_nothing(tmp_path: Path) -> None:
    killed = add_until_killed(CHILD, tmp_path)

    with open_store(tmp_path / "memory.db", embedder="none") as store:
        agent = Agent(
            agent_id="guide", session_manager=MemrelaySessionManager("chat", store, user="ada")
        )
    assert_kept([int(text) for text in texts(agent.messages)], killed)
    assert agent.state.get("n") >= killed.acknowledged[-1]


def test_messages_and_states_come_back_equal_as_from_the_file_manager(tmp_path: Path) -> None:
    def begin(manager: Any) -> None:
        agent = Agent(agent_id="a", session_manager=manager, callback_handler=None)
        agent.state.set("list", [1, {"é": None}])
        for message in MESSAGES:
            agent.messages.append(message)
            manager.append_message(message, agent)
        manager.sync_agent(agent)

    def use(do: Callable[[Any], Any]) -> list[Any]:
        with open_store(tmp_path / "memory.db", embedder="none") as store:
            theirs = FileSessionManager("chat", str(tmp_path / "theirs"))
            return [do(manager) for manager in (MemrelaySessionManager("chat", store), theirs)]

    use(begin)
    ours, theirs = use(lambda manager: Agent(agent_id="a", session_manager=manager))

    assert ours.messages == theirs.messages == MESSAGES
    assert ours.state.get() == theirs.state.get() == {"list": [1, {"é": None}]}


def test_the_repository_does_what_the_file_repository_does(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db", embedder="none") as store:
        results = []
        theirs = FileSessionManager("other", str(tmp_path / "theirs"))
        for one in (MemrelaySessionRepository(store), theirs):
            results.append(_use_repository(one))

    assert results[0] == results[1]
    assert results[0][1:4] == ["SessionException"] * 3


def _use_repository(repository: Any) -> list[Any]:
    session = Session("s", SessionType.AGENT, "then", "then")
    agent = SessionAgent("a", {"x": 1}, {}, created_at="then", updated_at="then")
    results: list[Any] = [repository.read_session("s")]

    def attempt(act: Callable[[], Any]) -> None:
        try:
            results.append(act())
        except SessionException as error:
            results.append(type(error).__name__)

    def number(n: int, text: str = "") -> SessionMessage:
        message: Any = {"role": "user", "content": [{"text": text or str(n)}]}
        return SessionMessage(message, n, created_at=f"t{n}", updated_at="then")

    repository.create_session(session)
    attempt(lambda: repository.create_session(session))
    attempt(lambda: repository.update_agent("s", agent))
    repository.create_agent("s", agent)
    attempt(lambda: repository.update_message("s", "a", number(0)))
    for n in range(12):
        repository.create_message("s", "a", number(n))
    changed = SessionAgent("a", {"x": 2}, {"y": [b"1"]}, created_at="now", updated_at="then")
    repository.update_agent("s", changed)
    redacted = number(3, "secret")
    redacted.redact_message = {"role": "user", "content": [{"text": "[redacted]"}]}
    redacted.created_at = "now"
    repository.update_message("s", "a", redacted)
    for window in ({}, {"limit": 3}, {"offset": 10}, {"limit": 2, "offset": 2}, {"limit": 0}):
        results.append(repository.list_messages("s", "a", **window))
    results += [repository.read_message("s", "a", n) for n in (3, 11, 12)]
    results += [repository.read_session("s"), repository.read_agent("s", "a")]
    results.append(repository.read_agent("s", "b"))
    with pytest.raises(ValueError):
        repository.read_session("s/a")
    repository.delete_session("s")
    results += [repository.read_session("s"), repository.read_agent("s", "a")]
    attempt(lambda: repository.delete_session("s"))
    return results


def test_a_deleted_session_leaves_no_messages(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db", embedder="none") as store:
        repository = MemrelaySessionRepository(store, user="ada")
        manager = RepositorySessionManager("chat", repository)
        for name in ("a", "b"):
            agent = Agent(agent_id=name, session_manager=manager, callback_handler=None)
            manager.append_message(MESSAGES[0], agent)
        assert len(store.turns.threads(user="ada").items) == 2

        repository.delete_session("chat")

        assert not store.turns.threads().items
        assert store.operate("records.list", {"kind": "memory.item"})["items"] == []


def test_a_redacted_message_is_found_by_its_new_text_only(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db", embedder="none") as store:
        manager = MemrelaySessionManager("chat", store)
        agent = Agent(session_manager=manager, callback_handler=None)
        manager.append_message({"role": "user", "content": [{"text": "the code is 1234"}]}, agent)
        manager.redact_latest_message({"role": "user", "content": [{"text": "[hidden]"}]}, agent)
        contents = [one.content for one in store.turns.list(thread="chat/default").items]
        found = store.records.search("1234").items
        again = Agent(session_manager=MemrelaySessionManager("chat", store), callback_handler=None)

    assert contents == ["[hidden]"] and not found
    assert texts(again.messages) == ["[hidden]"]


def test_sessions_of_two_users_with_the_same_id_are_two(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db", embedder="none") as store:
        for user in ("ada", "bob"):
            manager = MemrelaySessionManager("chat", store, user=user)
            agent = Agent(session_manager=manager, callback_handler=None)
            manager.append_message({"role": "user", "content": [{"text": user}]}, agent)
        again = Agent(
            session_manager=MemrelaySessionManager("chat", store, user="ada"),
            callback_handler=None,
        )

    assert texts(again.messages) == ["ada"]


def test_turns_of_others_are_refused_with_the_remedy(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db", embedder="none") as store:
        repository = MemrelaySessionRepository(store)
        store.turns.add([{"content": "hi"}], thread="s/a")
        store.turns.add([{"content": "hi", "item": {"message_id": 1}}], thread="s/b")
        with pytest.raises(Refused, match="use another session"):
            repository.list_messages("s", "a")
        with pytest.raises(Refused, match="update it"):
            repository.list_messages("s", "b")


def test_a_graph_continues_with_its_state(tmp_path: Path) -> None:
    def build(store: Any) -> Any:
        builder = GraphBuilder()
        builder.add_node(Agent(agent_id="one", model=Stub(lambda _: "done"), name="one"), "one")
        builder.set_session_manager(MemrelaySessionManager("graph", store))
        return builder.build()

    with open_store(tmp_path / "memory.db", embedder="none") as store:
        build(store)("go")
        state = MemrelaySessionRepository(store).read_multi_agent("graph", build(store).id)

    assert state["status"] == "completed" and "done" in str(state)


def test_the_memory_has_facts_and_other_sessions_but_not_the_own_one(tmp_path: Path) -> None:
    model = Stub(lambda _: "ok")
    with open_store(tmp_path / "memory.db", embedder="none") as store:
        store.records.create("Ada must not eat nuts", kind="fact", owner="ada")
        store.records.create("Bob likes nuts", kind="fact", owner="bob")
        for session, text in (
            ("one", "The cake has nuts"),
            ("two", "nuts and more nuts"),
            ("two", "Which nuts?"),
        ):
            memory = MemrelayMemoryStore(store, user="ada", session_id=session)
            agent = Agent(
                model=model,
                session_manager=MemrelaySessionManager(session, store, user="ada"),
                memory_manager=MemoryManager([memory]),
                callback_handler=None,
            )
            agent(text)
        kept = [one.content for one in store.turns.list(thread="two/default", user="ada").items]

    asked = " ".join(texts(model.asked[-1]))
    assert "Ada must not eat nuts" in asked and "The cake has nuts" in asked
    assert asked.count("nuts and more nuts") == 1 and "Bob" not in asked
    assert kept == ["nuts and more nuts", "ok", "Which nuts?", "ok"]


def test_an_agent_over_http_remembers_in_the_session_and_by_its_tool(server: Server) -> None:
    def answer(messages: list[Any]) -> Any:
        if "nuts!" in texts(messages[-1:]):
            return "add_memory", '{"entries": ["Ada eats no nuts"]}'
        return "ok"

    model = Stub(answer)
    with server.connect_sync() as client:
        for session, text in (("one", "nuts!"), ("one", "nuts!"), ("two", "May I eat nuts?")):
            memory = MemrelayMemoryStore(client, user="ada", agent="guide", session_id=session)
            agent = Agent(
                model=model,
                session_manager=MemrelaySessionManager(session, client, user="ada"),
                memory_manager=MemoryManager([memory], add_tool_config=True),
                callback_handler=None,
            )
            agent(text)
            if session == "one":
                messages = agent.messages
        facts = client.records.list(server.uid, kind="fact").items

    assert [one["role"] for one in messages] == ["user", "assistant"] * 4
    assert "Ada eats no nuts" in str(model.asked[-1])
    assert [one.content for one in facts] == ["Ada eats no nuts"]

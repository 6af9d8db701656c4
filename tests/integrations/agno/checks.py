"""MemrelayDb with the real Agno."""

import asyncio
import json
import logging
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agno.agent import Agent
from agno.db.base import SessionType
from agno.db.in_memory import InMemoryDb
from agno.db.schemas.memory import UserMemory
from agno.media import Image
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.run.agent import RunOutput
from agno.run.base import RunStatus
from agno.session import AgentSession, TeamSession
from agno.team import Team
from killing import add_until_killed, assert_kept
from pages import assert_example_remembers, assert_page_remembers
from servers import Server

from memrelay import connect, open_store
from memrelay.errors import Refused
from memrelay.integrations.agno import MemrelayDb

CHILD = """
import sys
from itertools import count
from agno.agent import Agent
from memrelay import open_store
from memrelay.integrations.agno import MemrelayDb
from checks import Stub

with open_store("memory.db", embedder="none") as store:
    agent = Agent(
        model=Stub(), db=MemrelayDb(store), user_id="ada", session_id="chat", telemetry=False
    )
    for n in count(int(sys.argv[-1])):
        agent.run(str(n))
        print(n, flush=True)
"""


class Stub(Model):
    """Answers with what a function makes of the messages."""

    def __init__(self, answer: Callable[[list[Any]], str] = lambda messages: "ok") -> None:
        super().__init__(id="stub")
        self.answer = answer

    def invoke(self, messages: Any, *arguments: Any, **options: Any) -> ModelResponse:
        return ModelResponse(role="assistant", content=self.answer(messages))

    async def ainvoke(self, *arguments: Any, **options: Any) -> ModelResponse:
        return self.invoke(*arguments, **options)

    def invoke_stream(self, *arguments: Any, **options: Any) -> Any:
        yield self.invoke(*arguments, **options)

    async def ainvoke_stream(self, *arguments: Any, **options: Any) -> Any:
        yield self.invoke(*arguments, **options)

    def _parse_provider_response(self, response: Any, **options: Any) -> ModelResponse:
        return ModelResponse()

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return ModelResponse()


def ask(db: Any, text: str, model: Model | None = None, **more: Any) -> str:
    """Return the answer of an agent with its history."""
    options = {"user_id": "ada", "session_id": "chat", "add_history_to_context": True} | more
    agent = Agent(model=model or Stub(), db=db, telemetry=False, **options)
    return str(agent.run(text).content)


def test_the_program_of_the_page_remembers_after_a_kill(tmp_path: Path) -> None:
    assert_page_remembers("agno", tmp_path, (2, 4))


def test_the_example_remembers_in_another_process(tmp_path: Path) -> None:
    assert_example_remembers("agno_agent", tmp_path)


def test_a_kill_loses_and_doubles_nothing(tmp_path: Path) -> None:
    here = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"

    killed = add_until_killed(here + CHILD, tmp_path)

    with open_store(tmp_path / "memory.db", embedder="none") as store:
        session: Any = MemrelayDb(store).get_session("chat", SessionType.AGENT, "ada")
    numbers = [int(one.input.input_content) for one in session.runs]
    assert_kept(numbers, killed)
    ended = [one for one in session.runs if one.status == RunStatus.completed]
    assert len(ended) >= len(killed.acknowledged)


def _run(n: int, **more: Any) -> RunOutput:
    messages = [
        Message(role="user", content=f"é {n}", images=[Image(url="https://example.org/a.png")]),
        Message(role="assistant", content="ok", tool_calls=[{"id": "c", "n": 1e-7}]),
    ]
    fields = {"agent_id": "guide", "status": RunStatus.completed, "messages": messages} | more
    return RunOutput(run_id=f"r{n}", session_id="s", created_at=n, **fields)


def test_sessions_and_runs_do_what_those_of_the_database_in_memory_do(tmp_path: Path) -> None:
    choose = random.Random(7)
    statuses = [RunStatus.pending, RunStatus.completed]
    runs = [_run(n % 20, status=statuses[n % 2]) for n in range(100)]
    steps = ["session", "session", "run", "run", "run", "rename", "delete run"]

    def change(db: Any, step: str, n: int, user: str | None) -> Any:
        session_id = f"s{n % 5}"
        if step == "session":
            state = {"session_state": {"n": [n, None]}, "session_name": f"Name {n % 3}"}
            made: Any = AgentSession(session_id, agent_id="a", user_id=user, session_data=state)
            if n % 5 == 4:
                made = TeamSession(session_id, team_id="t", user_id=user, session_data=state)
            made.created_at = 100 + n
            return db.upsert_session(made)
        if step == "run":
            return db.upsert_run(runs[n], session_id, run_index=n % 4 or None)
        if step == "rename":
            return db.rename_session(session_id, SessionType.AGENT, f"New {n}", user)
        if step == "delete run":
            return db.delete_run(f"r{n % 20}")
        return db.delete_session(session_id, user)

    def shown(value: Any) -> Any:
        if hasattr(value, "to_dict"):
            value = value.to_dict()
        return json.loads(json.dumps(value, default=lambda one: one.to_dict(), sort_keys=True))

    def read(db: Any, user: str | None) -> list[Any]:
        windows: list[Any] = [{}, {"user_id": user}, {"session_type": SessionType.TEAM}]
        windows += [{"component_id": "a", "limit": 2, "page": 2}, {"session_name": "name 1"}]
        windows += [{"start_timestamp": 110, "end_timestamp": 150}]
        results = [db.get_sessions(**one, sort_by="created_at") for one in windows]
        results += [db.get_session(f"s{n}", None, user, runs_limit=2) for n in range(5)]
        results += [db.get_run(f"r{n}") for n in range(3)]
        results += [db.get_runs(session_id="s1"), db.get_runs(session_id="s1", limit=1, page=2)]
        return [shown(one) for one in results]

    with open_store(tmp_path / "memory.db", embedder="none") as store:
        ours, theirs = MemrelayDb(store), InMemoryDb()
        for _ in range(150):
            step = choose.choice(steps)
            n, user = choose.randrange(100), choose.choice(["ada", "bob", None])
            step = "delete" if choose.random() < 0.04 else step
            results = [change(db, step, n, user) for db in (ours, theirs)]
            assert _without_time(shown(results[0])) == _without_time(shown(results[1])), step
            assert _without_time(read(ours, user)) == _without_time(read(theirs, user)), step


def _without_time(value: Any) -> Any:
    """Return a value without what depends on the clock, or on who counts the runs."""
    if isinstance(value, dict):
        left_out = ("updated_at", "run_index")
        return {name: _without_time(one) for name, one in value.items() if name not in left_out}
    return [_without_time(one) for one in value] if isinstance(value, list) else value


def test_memories_do_what_those_of_the_database_in_memory_do(tmp_path: Path) -> None:
    choose = random.Random(7)

    def read(db: Any) -> list[Any]:
        windows: list[Any] = [{}, {"user_id": "ada"}, {"topics": ["b", "x"]}, {"agent_id": "g"}]
        windows += [{"search_content": "TEXT 1"}, {"limit": 3, "page": 2, "sort_by": "memory_id"}]
        results = [db.get_user_memories(**one) for one in windows]
        results.append([db.get_user_memory(f"m{n}", user_id="ada") for n in range(3)])
        results.append(sorted(db.get_all_memory_topics()))
        stats, total = db.get_user_memory_stats()
        results += [total, sorted((one["user_id"], one["total_memories"]) for one in stats)]
        # The second of the change differs.
        return [re.sub(r"updated_at=\d+", "", str(one)) for one in results]

    with open_store(tmp_path / "memory.db", embedder="none") as store:
        ours, theirs = MemrelayDb(store), InMemoryDb()
        for n in range(60):
            memory = UserMemory(
                f"text {n} é",
                f"m{choose.randrange(12)}",
                topics=choose.choice([None, ["a", "b"], []]),
                user_id=choose.choice(["ada", "bob", None]),
                agent_id=choose.choice(["g", None]),
                input="x" * choose.choice([1, 2000]),
                created_at=1_700_000_000 + n,
            )
            removed = [f"m{n % 12}"] if choose.random() < 0.2 else []
            for db in (ours, theirs):
                db.upsert_user_memory(memory)
                db.delete_user_memories(removed, "ada")
            assert read(ours) == read(theirs)
        ours.clear_memories()
        assert ours.get_user_memories() == []


def test_an_agent_knows_memories_which_searches_find_and_its_session_but_no_other_users(
    tmp_path: Path,
) -> None:
    asked: list[str] = []

    def answer(messages: list[Any]) -> str:
        asked.append(" ".join(str(one.content) for one in messages))
        return "ok"

    with open_store(tmp_path / "memory.db", embedder="none") as store:
        db = MemrelayDb(store)
        db.upsert_user_memory(UserMemory("Ada must not eat nuts", user_id="ada"))
        db.upsert_user_memory(UserMemory("Bob likes cake", user_id="bob"))
        ask(db, "a question", Stub(answer))
        ask(db, "Which cake?", Stub(answer), add_memories_to_context=True)
        ask(db, "mine", Stub(answer), user_id="bob", session_id="bob-1")
        found = store.records.search("nuts", kind="agno.memory").items
        hidden = store.records.search("question").items

    assert "a question" in asked[1] and "Ada must not eat nuts" in asked[1]
    assert "Bob" not in asked[1] and "a question" not in asked[2]
    assert [hit.record.owner for hit in found] == ["ada"] and not hidden


def test_a_session_of_another_user_is_neither_read_nor_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("agno"), "propagate", True)
    with open_store(tmp_path / "memory.db", embedder="none") as store:
        db = MemrelayDb(store)
        ask(db, "secret")

        assert db.get_session("chat", user_id="bob") is None
        assert db.upsert_session(AgentSession("chat", agent_id="a", user_id="bob")) is None
        assert "session 'chat' is not kept: it belongs to another user" in caplog.text
        assert db.delete_session("chat", "bob") is False
        ask(db, "mine", user_id="bob")
        session: Any = db.get_session("chat", user_id="ada")
        assert len(session.runs) == 1 and db.delete_session("chat", "ada")
        assert store.operate("records.list", {"kind": "memory.item"})["items"] == []


def test_what_is_not_kept_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db", embedder="none") as store:
        db = MemrelayDb(store)
        for act in (db.get_metrics, db.get_traces, db.get_knowledge_contents, db.get_eval_runs):
            with pytest.raises(NotImplementedError, match="use a database of Agno"):
                act()
        store.records.create("x", kind="agno.memory")
        with pytest.raises(Refused, match="change its kind"):
            db.get_user_memories()
        with pytest.raises(TypeError):
            MemrelayDb("memory.db")
    db = MemrelayDb(connect("http://127.0.0.1:1"))
    with pytest.raises(TypeError, match="connect_sync"):
        db.get_session("chat")


def test_a_team_over_http_and_an_agent_in_an_event_loop_remember(server: Server) -> None:
    with server.connect_sync() as client:
        db = MemrelayDb(client)
        member = Agent(name="one", model=Stub(), telemetry=False)
        for _ in range(2):
            team = Team([member], model=Stub(), db=db, session_id="team", telemetry=False)
            team.run("hello")
        agent = Agent(model=Stub(), db=db, user_id="ada", session_id="loop", telemetry=False)
        asyncio.run(agent.arun("hi"))
        teams: Any = db.get_sessions(SessionType.TEAM)
        loop: Any = db.get_session("loop", user_id="ada")

    assert [(one.session_id, len(one.runs)) for one in teams] == [("team", 2)]
    assert loop.runs[0].input.input_content == "hi" and loop.runs[0].content == "ok"

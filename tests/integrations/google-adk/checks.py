"""MemrelaySessionService and MemrelayMemoryService with the real Google ADK.

The tests of sessions ask for what ADK's own tests of session services ask for.
"""

import asyncio
import json
import threading
import uuid
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from killing import add_until_killed, assert_kept
from pages import EXAMPLES, read_program, run
from servers import Server

from memrelay import open_store
from memrelay.integrations.google_adk import MemrelayMemoryService, MemrelaySessionService

Use = Callable[[Any], Awaitable[None]]
Run = Callable[[Use], None]
EVENT = Event(
    invocation_id="i",
    author="guide",
    content=types.Content(
        role="model",
        parts=[
            types.Part(text="A cake. é \x00"),
            types.Part.from_bytes(data=b"\x00\xff", mime_type="image/png"),
            types.Part.from_function_call(name="look", args={"a": 1.5, "b": [1, {"c": None}]}),
        ],
    ),
    actions=EventActions(artifact_delta={"file": 0}, transfer_to_agent="other", escalate=True),
    turn_complete=True,
    partial=False,
    long_running_tool_ids={"tool"},
    error_code="code",
    interrupted=True,
    grounding_metadata=types.GroundingMetadata(
        search_entry_point=types.SearchEntryPoint(sdk_blob=b"blob")
    ),
    usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=1),
    custom_metadata={"key": "value", "big": 2**63 - 1},
    timestamp=1700000000.123456,
)
CHILD = """
import asyncio, sys
from itertools import count
from google.adk.events.event import Event
from memrelay import open_store
from memrelay.integrations.google_adk import MemrelaySessionService

async def main():
    with open_store("memory.db", embedder="none") as store:
        service = MemrelaySessionService(store)
        where = {"app_name": "app", "user_id": "ada"}
        session = await service.get_session(**where, session_id="s")
        session = session or await service.create_session(**where, session_id="s")
        for n in count(int(sys.argv[-1])):
            state = {"n": n, "user:n": n} if n % 2 else {}
            await service.append_event(session, Event(author="ada", message=str(n), state=state))
            print(n, flush=True)

asyncio.run(main())
"""


def on_file(folder: Path, use: Use) -> None:
    with open_store(folder / "memory.db", embedder="none") as store:
        asyncio.run(use(store))


@pytest.fixture(params=["file", "client"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Return a function that runs a test on a file, and on a server."""
    if request.param == "file":
        return lambda use: on_file(tmp_path, use)
    server: Server = request.getfixturevalue("server")

    async def connected(use: Use) -> None:
        async with server.connect() as client:
            await use(client)

    return lambda use: asyncio.run(connected(use))


def app() -> str:
    return f"app {uuid.uuid4()}/%."


def say(text: str = "", **more: Any) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text or "hello")])
    return Event(invocation_id="i", author="user", content=content, **more)


def test_a_session_is_created_read_and_deleted(start: Run) -> None:
    async def use(call: Any) -> None:
        service, where = MemrelaySessionService(call), {"app_name": app(), "user_id": "a@b.c"}
        created = await service.create_session(**where, state={"key": {"deep": [1, None]}})
        read = await service.get_session(**where, session_id=created.id)
        assert read == created and created.state == {"key": {"deep": [1, None]}}
        same = await service.create_session(**where, session_id=" s/1 ")
        assert same.id == "s/1"
        with pytest.raises(AlreadyExistsError, match="already exists"):
            await service.create_session(**where, session_id="s/1")
        await service.append_event(same, say(state={"k": 1, "user:k": 2}))
        await service.delete_session(**where, session_id="s/1 ")
        await service.delete_session(**where, session_id="s/1")
        assert await service.get_session(**where, session_id="s/1") is None
        with pytest.raises(SessionNotFoundError):
            await service.append_event(same, say())
        with pytest.raises(ValueError, match="use shorter names"):
            await service.create_session(app_name="a", user_id="u" * 256)
        again = await service.create_session(**where, session_id="s/1")
        assert again.state == {"user:k": 2} and not again.events
        assert await service.get_session(**where, session_id=" s/1") == again

    start(use)


def test_states_have_the_scopes_of_their_prefixes(start: Run) -> None:
    async def use(call: Any) -> None:
        service, name = MemrelaySessionService(call), app()
        state = {"app:a": 1, "user:u": 2, "s": 3, "temp:t": 4}
        first = await service.create_session(app_name=name, user_id="u1", state=state)
        assert first.state == {"app:a": 1, "user:u": 2, "s": 3}
        event = say(state={"app:b": 5, "user:v": {"w": 6}, "s": None, "temp:t": 7})
        await service.append_event(first, event)
        assert first.state["temp:t"] == 7 and "temp:t" not in event.actions.state_delta
        shared = {"app:a": 1, "app:b": 5}
        same = await service.create_session(app_name=name, user_id="u1")
        assert same.state == shared | {"user:u": 2, "user:v": {"w": 6}}
        assert (await service.create_session(app_name=name, user_id="u2")).state == shared
        assert (await service.create_session(app_name=app(), user_id="u1")).state == {}
        read = await service.get_session(app_name=name, user_id="u1", session_id=first.id)
        assert read is not None and read.state == same.state | {"s": None}
        assert read.events[0].actions.state_delta == event.actions.state_delta
        mine = await service.get_user_state(app_name=name, user_id="u1")
        assert mine == {"u": 2, "v": {"w": 6}}
        assert await service.get_user_state(app_name=name, user_id="u2") == {}

    start(use)


def test_events_come_back_equal_and_once(start: Run) -> None:
    async def use(call: Any) -> None:
        service, where = MemrelaySessionService(call), {"app_name": app(), "user_id": "ada"}
        session = await service.create_session(**where)
        event = EVENT.model_copy(deep=True)
        await service.append_event(session, event)
        await service.append_event(session, Event(author="guide", partial=True))
        large = say("x" * 200_000, state={"large": "y" * 200_000})
        await service.append_event(session, large)
        await service.append_event(session, large)
        assert session.events == [event, large]
        assert session.last_update_time == large.timestamp
        read = await service.get_session(**where, session_id=session.id)
        assert read == session
        unsent = session.model_copy(deep=True)
        lost = say(state={"n": 1})
        await service.append_event(unsent, lost)
        await service.append_event(session, lost)  # again, after an error of the network
        read = await service.get_session(**where, session_id=session.id)
        assert read == session and len(session.events) == 3
        await service.append_event(session, say(state={"n": 2}))
        await service.append_event(session, lost)  # changes no newer state
        read = await service.get_session(**where, session_id=session.id)
        assert read == session and read.state["n"] == 2

    start(use)


def test_a_session_is_read_in_parts(start: Run) -> None:
    async def use(call: Any) -> None:
        service, where = MemrelaySessionService(call), {"app_name": app(), "user_id": "ada"}
        session = await service.create_session(**where)

        async def times(**config: Any) -> list[float]:
            some = GetSessionConfig(**config)
            read = await service.get_session(**where, session_id=session.id, config=some)
            assert (
                read is not None
                and read.last_update_time == (session.events or [session])[-1].timestamp
            )
            return [event.timestamp for event in read.events]

        for n in range(1, 6):
            await service.append_event(session, Event(author="user", timestamp=n))
        assert await times() == [1, 2, 3, 4, 5]
        assert await times(num_recent_events=0) == []
        assert await times(num_recent_events=3) == [3, 4, 5]
        assert await times(after_timestamp=4.0) == [4, 5]
        assert await times(after_timestamp=50) == []
        assert await times(after_timestamp=4.0, num_recent_events=3) == [4, 5]
        assert await times(after_timestamp=1.0, num_recent_events=1) == [5]

    start(use)


def test_sessions_are_listed_the_newest_last(start: Run) -> None:
    async def use(call: Any) -> None:
        service, name = MemrelaySessionService(call), app()
        for user, session in (("u1", "a"), ("u1", "b"), ("u2", "a"), ("u", "c")):
            made = await service.create_session(
                app_name=name, user_id=user, session_id=session, state={"key": user + session}
            )
            await service.append_event(made, say(state={"user:name": user}))
        await service.create_session(app_name=name + "x", user_id="u1")
        oldest = await service.get_session(app_name=name, user_id="u1", session_id="a")
        assert oldest is not None
        await asyncio.sleep(0.01)
        await service.append_event(oldest, say())
        listed = (await service.list_sessions(app_name=name)).sessions
        assert [(one.user_id, one.id) for one in listed][-1] == ("u1", "a")
        states = [{"key": one.user_id + one.id, "user:name": one.user_id} for one in listed]
        assert [one.state for one in listed] == states and len(listed) == 4
        mine = (await service.list_sessions(app_name=name, user_id="u1")).sessions
        assert [one.id for one in mine] == ["b", "a"] and not any(one.events for one in mine)
        assert (await service.list_sessions(app_name=name, user_id="")).sessions == []

    start(use)


def test_an_interrupted_event_is_completed(tmp_path: Path) -> None:
    async def use(store: Any) -> None:
        where = {"app_name": "app", "user_id": "ada"}
        service = MemrelaySessionService(store)
        session = await service.create_session(**where)
        await service.append_event(session, say())
        broken = MemrelaySessionService(_NoTurns(store))
        event = say("an important one", state={"n": 1})
        with pytest.raises(ConnectionError):
            await broken.append_event(session, event)
        read = await service.get_session(**where, session_id=session.id)
        assert read is not None and read.state == {"n": 1}
        assert [one.id for one in read.events] == [session.events[0].id, event.id]
        later = say(state={"n": 2})
        with pytest.raises(ConnectionError):
            await broken.append_event(read, later)
        last = say(state={"n": 3})
        await service.append_event(read, last)  # the same program goes on
        read = await service.get_session(**where, session_id=session.id)
        assert read is not None and read.state == {"n": 3}
        assert [one.id for one in read.events][1:] == [event.id, later.id, last.id]

    on_file(tmp_path, use)


class _NoTurns:
    """A store whose connection fails between the two calls of an event."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def operate(self, name: str, input: Any) -> Any:
        if name == "turns.add":
            raise ConnectionError(name)
        return self._store.operate(name, input)


def test_an_event_of_another_version_is_refused_and_kept(tmp_path: Path) -> None:
    async def use(store: Any) -> None:
        where = {"app_name": "app", "user_id": "ada", "session_id": "s"}
        service = MemrelaySessionService(store)
        session = await service.create_session(**where)
        item = say().model_dump(mode="json") | {"actions": {"new": True}}
        thread = "session/app/ada/s"
        store.turns.add([{"content": "x", "id": "e", "item": item}], thread=thread, user="ada")
        with pytest.raises(ValueError, match="install the version that wrote it"):
            await service.get_session(**where)
        assert store.turns.list(thread=thread).items[0].item == item
        assert session.id == "s"

    on_file(tmp_path, use)


def test_memories_are_found_by_their_user_only(start: Run) -> None:
    async def use(call: Any) -> None:
        service, where = MemrelayMemoryService(call), {"app_name": app(), "user_id": "ada"}
        events = [say("I am allergic to walnuts"), say("My train leaves at nine")]
        events.append(Event(author="guide", state={"k": 1}))  # without a text
        session = Session(id="s1", **where, events=events)
        for _ in range(2):
            await service.add_session_to_memory(session)
        found = (await service.search_memory(**where, query="walnuts?")).memories[0]
        assert found.content == events[0].content and found.id == events[0].id
        assert found.author == "user" and found.timestamp is not None
        for other in ({"user_id": "bob"}, {"app_name": app()}, {"user_id": "ad"}):
            assert not (await service.search_memory(**where | other, query="walnuts")).memories
        assert not (await service.search_memory(**where, query=" ")).memories
        await service.delete_memory(**where, memory_id=found.id)
        await service.delete_memory(**where, memory_id="unknown")
        await service.add_session_to_memory(session)
        left = (await service.search_memory(**where, query="walnuts train")).memories
        assert [one.id for one in left] == [events[1].id]

    start(use)


def test_events_and_memories_are_added_once(start: Run) -> None:
    async def use(call: Any) -> None:
        service, where = MemrelayMemoryService(call), {"app_name": app(), "user_id": "ada"}
        events = [say(f"walnut {n}") for n in range(3)]
        for session in ("s1", "s1", None, None):
            await service.add_events_to_memory(
                **where, events=events[:2], session_id=session, custom_metadata={"a": 1}
            )
        await service.add_events_to_memory(**where, events=events, session_id="s1")
        found = (await service.search_memory(**where, query="walnut")).memories
        ids = [event.id for event in (*events, *events[:2])]
        assert sorted(one.id for one in found) == sorted(ids)
        assert sum(one.custom_metadata == {"a": 1} for one in found) == 4
        parts = [types.Part(text="tea"), types.Part(text="or coffee")]
        entry = MemoryEntry(
            id="m", content=types.Content(role="user", parts=parts), author="ada", timestamp="2026"
        )
        for _ in range(2):
            await service.add_memory(**where, memories=[entry], custom_metadata={"b": 2})
        await service.add_memory(**where, memories=[entry.model_copy(update={"id": None})])
        first, second, *_ = (await service.search_memory(**where, query="coffee")).memories
        expected = entry.model_copy(update={"custom_metadata": {"b": 2}})
        assert expected in (first, second) and {first.id, second.id} > {"m"}

    start(use)


def test_a_long_session_is_added_again(tmp_path: Path) -> None:
    async def use(store: Any) -> None:
        service = MemrelayMemoryService(store, limit=5)
        where = {"app_name": "app", "user_id": "ada"}
        events = [say(f"number {n}") for n in range(1200)]
        for count in (1100, 1200, 1200):
            await service.add_session_to_memory(Session(id="s", **where, events=events[:count]))
        assert store.records.list(kind="memory", limit=1).total == 1200
        assert len((await service.search_memory(**where, query="number")).memories) == 5

    on_file(tmp_path, use)


def test_an_event_survives_a_kill(tmp_path: Path) -> None:
    killed = add_until_killed(CHILD, tmp_path)

    async def use(store: Any) -> None:
        service = MemrelaySessionService(store)
        session = await service.get_session(app_name="app", user_id="ada", session_id="s")
        assert session is not None
        stored = [int(event.content.parts[0].text) for event in session.events]
        assert_kept(stored, killed)
        odd = [n for n in stored if n % 2]
        assert session.state == {"n": odd[-1], "user:n": odd[-1]}

    on_file(tmp_path, use)


def test_the_program_of_the_page_remembers_after_a_kill(tmp_path: Path) -> None:
    program = read_program("google-adk")

    with GeminiServer(("127.0.0.1", 0), Gemini) as model:
        threading.Thread(target=model.serve_forever, args=(0.02,), daemon=True).start()
        environment = {
            "GOOGLE_API_KEY": "key",
            "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{model.server_port}",
        }
        run(program, tmp_path, kill=True, environment=environment)
        run(program, tmp_path, "monday", "What did I say?", environment=environment)
        run(program, tmp_path, "friday", "Are there walnuts?", environment=environment)
        model.shutdown()

    first, second, third = model.requests
    texts = ["I am allergic to walnuts.", "Noted.", "What did I say?"]
    assert [part["text"] for one in second["contents"] for part in one["parts"]] == texts
    assert "PAST_CONVERSATIONS" not in str(first) and "PAST_CONVERSATIONS" in str(third)
    assert "user: I am allergic to walnuts." in str(third)


class GeminiServer(ThreadingHTTPServer):
    """Notes the requests to Gemini's API."""

    requests: ClassVar[list[Any]] = []


class Gemini(BaseHTTPRequestHandler):
    """Answers each request with a word."""

    def do_POST(self) -> None:
        GeminiServer.requests.append(
            json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        )
        content = {"role": "model", "parts": [{"text": "Noted."}]}
        answer = json.dumps({"candidates": [{"content": content, "finishReason": "STOP"}]})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer.encode())


def test_the_program_with_a_server_lists_sessions(server: Server) -> None:
    program = read_program("google-adk", 1).replace("http://127.0.0.1:8765", server.url)
    names: dict[str, Any] = {}
    exec(program, names)

    async def use() -> None:
        async with server.connect() as client:
            service = MemrelaySessionService(client)
            await service.create_session(app_name="guide", user_id="ada", session_id="monday")
        assert [session.id for session in await names["list_sessions"]("ada")] == ["monday"]

    asyncio.run(use())


def test_the_example_remembers_in_another_process(tmp_path: Path) -> None:
    agent = EXAMPLES / "google_adk_agent/agent.py"

    run(agent, tmp_path, "I am allergic to walnuts")
    printed = run(agent, tmp_path, "--session", "friday", "Are there walnuts in the cake?")

    assert "user: I am allergic to walnuts" in printed

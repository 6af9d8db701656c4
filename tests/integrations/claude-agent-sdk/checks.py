"""The tools, hooks and the session store with the real Claude Agent SDK and its Claude Code.

A server on loopback stands for the model.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from anthropic_server import serve_messages
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    Transport,
    list_sessions_from_store,
    query,
)
from claude_agent_sdk.testing import run_session_store_conformance
from killing import add_until_killed, assert_kept
from pages import EXAMPLES, read_program, run
from servers import Server

from memrelay import open_store
from memrelay.integrations.claude_agent_sdk import (
    MemrelaySessionStore,
    memory_hooks,
    memory_server,
)

Json = dict[str, Any]
REMEMBER = "mcp__memory__remember"
NUTS = "Ada is allergic to nuts"
CHILD = """
import asyncio, sys
from itertools import count
from memrelay import open_store
from memrelay.integrations.claude_agent_sdk import memory_hooks

async def main():
    with open_store("memory.db", embedder="none") as store:
        (matcher,) = memory_hooks(store, user="ada", recall=0)["UserPromptSubmit"]
        for n in count(int(sys.argv[-1])):
            prompt = {"session_id": "s", "prompt_id": f"p{n}", "prompt": str(n)}
            await matcher.hooks[0](prompt, None, {"signal": None})
            print(n, flush=True)

asyncio.run(main())
"""


def answer(request: Json) -> Json:
    """Call the tool `remember` once, and then say how many messages there are."""
    messages = request["messages"]
    tools = [tool["name"] for tool in request.get("tools", ())]
    if REMEMBER in tools and "tool_result" not in json.dumps(messages):
        return {"type": "tool_use", "id": "t1", "name": REMEMBER, "input": {"fact": NUTS}}
    return {"type": "text", "text": f"{len(messages)} messages"}


def test_the_program_of_the_page_remembers_after_a_kill(tmp_path: Path) -> None:
    program = read_program("claude-agent-sdk")

    with serve_messages(answer) as model:
        home = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}
        environment = model.environment | home
        run(program, tmp_path, kill=True, environment=environment)
        run(program, tmp_path, "Which cake with nuts may I eat?", environment=environment)
        first, *_, last = (json.dumps(request["messages"]) for request in model.requests)

    assert "I am allergic to nuts." not in last.split("Which cake")[0]
    assert '\\"content\\":\\"I am allergic to nuts.\\"' in last.replace('\\\\"', '\\"')
    assert "Memory, as data" in last and "Memory, as data" not in first
    with open_store(tmp_path / "memory.db", embedder="none") as store:
        turns = store.records.list(kind="turn").items
        facts = store.records.list(kind="fact").items
    assert [(turn.source, turn.content) for turn in turns][::2] == [
        ("ada", "I am allergic to nuts."),
        ("ada", "Which cake with nuts may I eat?"),
    ]
    assert all(turn.source == "guide" and "messages" in turn.content for turn in turns[1::2])
    assert {(fact.owner, fact.content) for fact in facts} == {("ada", NUTS)}


def test_the_program_with_a_server_continues_a_session(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {}
    exec(read_program("claude-agent-sdk", 1).replace("http://127.0.0.1:8765", server.url), names)

    async def begin() -> str:
        async with server.connect() as client:
            sessions = MemrelaySessionStore(client, user="ada")
            options = ClaudeAgentOptions(session_store=sessions)
            (result,) = [
                message
                async for message in query(prompt="I like green tea", options=options)
                if isinstance(message, ResultMessage)
            ]
            return result.session_id

    with serve_messages(answer) as model, pytest.MonkeyPatch.context() as patch:
        for name, value in (model.environment | {"HOME": str(tmp_path)}).items():
            patch.setenv(name, value)
        patch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "first"))
        session = asyncio.run(begin())
        patch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "second"))
        asyncio.run(names["continue_session"](session, "Which tea do I like?"))
        messages = json.dumps(model.requests[-1]["messages"])

    assert messages.index("I like green tea") < messages.index("Which tea do I like?")
    assert session in capsys.readouterr().out


def test_the_example_resumes_a_session_without_its_files(tmp_path: Path) -> None:
    agent = EXAMPLES / "claude_agent/agent.py"

    with serve_messages(answer) as model:
        environment = model.environment | {"HOME": str(tmp_path)}
        first = {"CLAUDE_CONFIG_DIR": str(tmp_path / "first")}
        printed = run(agent, tmp_path, "I am allergic to nuts.", environment=environment | first)
        session = printed.split()[1]
        second = {"CLAUDE_CONFIG_DIR": str(tmp_path / "second")}
        options = ("--resume", session, "Which cake?")
        resumed = run(agent, tmp_path, *options, environment=environment | second)
        messages = json.dumps(model.requests[-1]["messages"])

    assert resumed.split()[1] == session
    assert messages.index("I am allergic to nuts.") < messages.index("Which cake?")
    with open_store(tmp_path / "transcripts.db", embedder="none") as transcripts:
        store = MemrelaySessionStore(transcripts, user="ada")
        (listed,) = asyncio.run(list_sessions_from_store(store, directory=str(tmp_path)))
        assert listed.session_id == session and listed.first_prompt == "I am allergic to nuts."


def test_a_kill_loses_and_doubles_nothing(tmp_path: Path) -> None:
    killed = add_until_killed(CHILD, tmp_path)

    with open_store(tmp_path / "memory.db", embedder="none") as store:
        turns = store.turns.list(thread="s", user="ada", limit=1000)
    assert turns.before is None
    assert_kept([int(turn.content) for turn in turns.items], killed)


def test_the_session_store_passes_the_conformance_suite_of_the_sdk(
    tmp_path: Path, server: Server
) -> None:
    numbers = iter(range(100))

    async def on_server() -> None:
        async with server.connect() as client:
            await run_session_store_conformance(
                lambda: MemrelaySessionStore(client, user=f"user {next(numbers)}")
            )

    asyncio.run(on_server())
    with open_store(tmp_path / "memory.db", embedder="none") as store:
        asyncio.run(
            run_session_store_conformance(
                lambda: MemrelaySessionStore(store, user=f"user {next(numbers)}")
            )
        )


def test_entries_of_transcripts_come_back_once_and_equal(tmp_path: Path) -> None:
    key: Any = {"project_key": "-tmp/x", "session_id": "s", "subpath": "subagents/a b/%"}
    entries: Any = [
        {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "nuts é"}},
        {"type": "assistant", "uuid": "u2", "message": {"content": [{"type": "text", "text": ""}]}},
        {"type": "title", "deep": [[[[[[[[[[[[[[[[[[1.5]]]]]]]]]]]]]]]]]], "z": 1, "a": None},
        {"type": "user", "uuid": "u3", "message": {"content": "x" * 200_000}, "n": 2**53},
    ]

    async def use(store: MemrelaySessionStore) -> None:
        await store.append(key, entries)
        await store.append(key, entries[3:])  # again, as after an error of the network
        assert await store.load(key) == entries
        main: Any = {"project_key": "-tmp/x", "session_id": "s"}
        assert await store.list_subkeys(main) == ["subagents/a b/%"]
        await store.delete(main)
        assert await store.load(key) is None

    with open_store(tmp_path / "memory.db", embedder="none") as file:
        asyncio.run(use(MemrelaySessionStore(file)))


class StubClaude(Transport):
    """Runs hooks and tools as Claude Code asks for them, and notes the answers."""

    def __init__(self, steps: Callable[["StubClaude"], Awaitable[None]]) -> None:
        self._steps = steps
        self._out: asyncio.Queue[Json | None] = asyncio.Queue()
        self._answers: dict[str, asyncio.Future[Json]] = {}
        self.hooks: Json = {}
        self._has_started = False

    async def connect(self) -> None:
        pass

    async def write(self, data: str) -> None:
        message = json.loads(data)
        if message["type"] == "control_request":
            self.hooks = message["request"]["hooks"]
            answered = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            await self._out.put({"type": "control_response", "response": answered})
        elif message["type"] == "control_response":
            answer = message["response"]
            self._answers[answer["request_id"]].set_result(answer)
        elif message["type"] == "user":
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._steps(self)
        finally:
            result = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1}
            await self._out.put(
                result | {"duration_ms": 1, "duration_api_ms": 1, "session_id": "s", "result": ""}
            )
            await self._out.put(None)

    async def ask(self, **request: Any) -> Json:
        """Return the answer to a request of Claude Code."""
        ident = str(len(self._answers))
        self._answers[ident] = asyncio.get_running_loop().create_future()
        await self._out.put({"type": "control_request", "request_id": ident, "request": request})
        return await asyncio.wait_for(self._answers[ident], 10)

    async def run_hook(self, event: str, **fields: Any) -> Json:
        """Return the answer of the hook of an event."""
        base = {"session_id": "s", "transcript_path": "", "cwd": "/", "hook_event_name": event}
        (matcher,) = self.hooks[event]
        (callback,) = matcher["hookCallbackIds"]
        return await self.ask(
            subtype="hook_callback", callback_id=callback, input=base | fields, tool_use_id=None
        )

    async def call_tool(self, name: str, arguments: Json) -> Json:
        """Return the result of a tool."""
        if not self._has_started:
            about = {"protocolVersion": "2025-06-18", "capabilities": {}}
            about["clientInfo"] = {"name": "stub", "version": "1"}
            await self._send_mcp("initialize", about, id=0)
            await self._send_mcp("notifications/initialized", {})
            self._has_started = True
        return await self._send_mcp("tools/call", {"name": name, "arguments": arguments}, id=1)

    async def _send_mcp(self, method: str, params: Json, **ident: int) -> Json:
        message = {"jsonrpc": "2.0", "method": method, "params": params, **ident}
        answer = await self.ask(subtype="mcp_message", server_name="memory", message=message)
        assert "error" not in answer["response"]["mcp_response"], answer
        result: Json = answer["response"]["mcp_response"]["result"]
        return result

    async def read_messages(self) -> AsyncIterator[Json]:
        while (message := await self._out.get()) is not None:
            yield message

    async def close(self) -> None:
        await self._task  # raises what failed in the steps

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        pass


async def run_steps(options: ClaudeAgentOptions, steps: Any) -> None:
    stub = StubClaude(steps)
    results = [one async for one in query(prompt="hello", options=options, transport=stub)]
    assert isinstance(results[-1], ResultMessage)


@pytest.mark.parametrize("on_server", [False, True])
def test_hooks_and_tools_remember(tmp_path: Path, server: Server, on_server: bool) -> None:
    async def steps(claude: StubClaude) -> None:
        prompt = {"prompt": "I like green tea", "prompt_id": "p1"}
        for _ in range(2):
            assert (await claude.run_hook("UserPromptSubmit", **prompt))["response"] == {}
        stop = {"stop_hook_active": False, "last_assistant_message": "Noted.", "prompt_id": "p1"}
        for _ in range(2):
            await claude.run_hook("Stop", **stop)
        await claude.run_hook("Stop", stop_hook_active=False)
        result = {"tool_input": {"command": "ls"}, "tool_response": "x" * 9_000}
        await claude.run_hook("PostToolUse", tool_name="Bash", tool_use_id="t1", **result)
        other = {"prompt": "Which tea do I like?", "prompt_id": "p2", "session_id": "other"}
        found = await claude.run_hook("UserPromptSubmit", **other)
        context = found["response"]["hookSpecificOutput"]["additionalContext"]
        assert '"content":"I like green tea","said_by":"eve"' in context

        remembered = await claude.call_tool("remember", {"fact": NUTS})
        assert remembered["content"][0]["text"] == "Remembered."
        searched = await claude.call_tool("search", {"query": "allergic to nuts"})
        assert json.loads(searched["content"][0]["text"])[0]["content"] == NUTS
        refused = await claude.call_tool("remember", {"fact": ""})
        assert refused["isError"] and "content" in refused["content"][0]["text"]
        assert (await claude.call_tool("search", {}))["isError"]

    async def use(call: Any, user: str) -> None:
        entry: Any = {"type": "user", "message": {"content": "I like green tea. Which tea?"}}
        key: Any = {"project_key": "p", "session_id": "other"}
        await MemrelaySessionStore(call, user=user).append(key, [entry])
        options = ClaudeAgentOptions(
            mcp_servers={"memory": memory_server(call, user=user, agent="guide")},
            hooks=memory_hooks(call, user=user, agent="guide", tools=True),
        )
        await run_steps(options, steps)

    async def use_server() -> None:
        async with server.connect() as client:
            await use(client, "eve")
            turns = (await client.turns.list(server.uid, thread="s", user="eve")).items
            check(turns)

    def check(turns: Any) -> None:
        shown = [(turn.role, turn.name, turn.content[:20]) for turn in turns]
        assert shown == [
            ("user", "eve", "I like green tea"),
            ("assistant", "guide", "Noted."),
            ("tool", "Bash", '{"command":"ls"}\nxxx'),
        ]
        assert len(turns[2].content) < 2_100

    if on_server:
        asyncio.run(use_server())
        return
    with open_store(tmp_path / "memory.db", embedder="none") as store:
        asyncio.run(use(store, "eve"))
        check(store.turns.list(thread="s", user="eve").items)


def test_a_failing_memory_does_not_end_the_session(tmp_path: Path) -> None:
    store = open_store(tmp_path / "memory.db", embedder="none")
    options = ClaudeAgentOptions(
        mcp_servers={"memory": memory_server(store)}, hooks=memory_hooks(store)
    )
    store.close()

    async def steps(claude: StubClaude) -> None:
        failed = await claude.run_hook("UserPromptSubmit", prompt="hello")
        assert failed["subtype"] == "error" and "closed" in failed["error"]
        answer = await claude.call_tool("remember", {"fact": NUTS})
        assert answer["isError"] and "closed" in answer["content"][0]["text"]

    asyncio.run(run_steps(options, steps))

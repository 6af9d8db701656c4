"""The acceptance statements of the MCP server, against a running product."""

import asyncio
import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from memrelay.cli.commands.mcp import CLIENTS
from tests.support.client import input_of
from tests.support.http import Answer, ask
from tests.support.keys import await_closed, make_key
from tests.support.mcp_calls import McpCalls
from tests.support.mcp_clients import (
    HANDSHAKE,
    STATELESS,
    call,
    from_configuration,
    names_of_tools,
    over_http,
    refused,
    started,
)
from tests.support.program import environment_without_settings, run_as_process
from tests.support.waiting import LATE_S, wait_for
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow
CALL_TIMEOUT_S = 2
STREAMS = 200


@pytest.fixture
def web_system() -> Iterator[WebSystem]:
    """Start a system that the test may break."""
    with WebSystem(WEB__RATE="0", WEB__CALL_TIMEOUT_S=str(CALL_TIMEOUT_S)) as web_system:
        yield web_system


@pytest.mark.parametrize("client_name", CLIENTS)
def test_a_the_printed_configuration_starts_the_server(tmp_path: Path, client_name: str) -> None:
    printed = run_as_process(
        ["mcp", "--file", "notes.db", "--print", client_name],
        tmp_path,
        environment_without_settings(),
    )
    configuration = json.loads(printed.out)
    (servers,) = configuration.values() if "command" not in configuration else [{"": configuration}]
    (entry,) = servers.values()

    async def talk() -> tuple[Any, Any, Any]:
        async with started(from_configuration(entry, tmp_path), tmp_path) as client:
            first = await call(client, "memory_remember", text="Ada likes tea")
            found = await call(client, "memory_recall", query="what does Ada drink")
            return first, found, await call(client, "memory_remember", text="Ada likes tea")

    first, found, again = asyncio.run(talk())
    assert (first["action"], again["action"]) == ("created", "skipped")
    assert "Ada likes tea" in json.dumps(found)


@pytest.mark.parametrize("mode", [HANDSHAKE, STATELESS])
def test_b_a_key_sees_only_the_tools_that_it_may_call(web_system: WebSystem, mode: str) -> None:
    uid = web_system.deploy()
    key = make_key(web_system.system.root, "search")
    await_closed(web_system)

    async def talk() -> tuple[list[str], str]:
        async with over_http(f"{web_system.url}/mcp/{uid}", mode, key.text) as client:
            return await names_of_tools(client), await refused(client, "memory_write", content="x")

    names, text = asyncio.run(talk())
    assert names == ["memory_recall", "memory_search"]
    assert "write" in text.replace("memory_write", "")


def test_c_a_key_learns_nothing_about_other_pipelines(web_system: WebSystem) -> None:
    ours, theirs = web_system.deploy(), web_system.deploy()
    post_record(web_system, theirs, "The vault code is 7788", in_context=True)
    key = make_key(web_system.system.root, pipelines=(ours,))
    await_closed(web_system)

    def ask_other(uid: str) -> Answer:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        headers = key.headers | {"Accept": "application/json, text/event-stream"}
        return web_system.post(f"/mcp/{uid}", body, **headers)

    async def look() -> list[str]:
        async with over_http(f"{web_system.url}/mcp", STATELESS, key.text) as client:
            return [*await everything(client), await read_error(client, theirs)]

    other, unknown = ask_other(theirs), ask_other("0" * len(theirs))
    seen = asyncio.run(look())
    assert (other.status, unknown.status) == (404, 404)
    assert other.body.replace(theirs.encode(), b"") == unknown.body.replace(b"0" * len(theirs), b"")
    assert [text for text in seen[:-1] if theirs in text or "7788" in text] == []
    assert "7788" not in seen[-1]


def post_record(web_system: WebSystem, uid: str, content: str, **fields: Any) -> None:
    answer = web_system.post(f"/v1/pipelines/{uid}/records", {"content": content} | fields)
    assert answer.status == 201, answer


async def everything(client: Client) -> list[str]:
    """Return all lists that a client sees, and what searches return, as JSON."""
    lists = [
        await client.list_tools(),
        await client.list_resources(),
        await client.list_resource_templates(),
        await client.list_prompts(),
        await client.call_tool("memory_search", {"query": "vault code"}),
        await client.call_tool("memory_read", {}),
    ]
    return [one.model_dump_json() for one in lists]


async def read_error(client: Client, uid: str) -> str:
    """Return the answers to a resource and a call of another pipeline."""
    result = await client.call_tool("memory_search", {"query": "vault", "pipeline": uid})
    assert result.is_error
    with pytest.raises(MCPError) as caught:
        await client.read_resource(f"memory://{uid}/records/00000000-0000-7000-8000-000000000000")
    return f"{result.model_dump_json()} {caught.value}"


def test_d_calls_fail_in_time_without_the_bus_and_work_again_after_it(
    web_system: WebSystem,
) -> None:
    uid = web_system.deploy()

    async def talk() -> tuple[str, float]:
        async with over_http(f"{web_system.url}/mcp/{uid}", HANDSHAKE) as client:
            await call(client, "memory_write", content="before")
            web_system.system.kill_server()
            began_s = time.monotonic()
            text = await refused(client, "memory_write", content="during")
            waited_s = time.monotonic() - began_s
            web_system.system.server.start()
            web_system.system.client.redis.connection_pool.disconnect()
            await work_again(client)
            return text, waited_s

    text, waited_s = asyncio.run(talk())
    assert waited_s < CALL_TIMEOUT_S + LATE_S
    assert any(word in text.lower() for word in ("retry", "again"))


async def work_again(client: Client) -> None:
    """Wait until calls of the same client succeed."""
    deadline_s = time.monotonic() + 60
    while (await client.call_tool("memory_write", {"content": "after"})).is_error:
        assert time.monotonic() < deadline_s, "calls fail although the bus runs"
        await asyncio.sleep(0.2)


def test_e_the_first_answer_returns_after_the_web_server_was_killed(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    given = {"content": "exactly once", "idempotency_key": "k1"}
    before = web_system.system.client.redis.xlen(input_of(uid))
    web_system.system.workers[-1].send_signal(signal.SIGSTOP)
    lost = threading.Thread(target=write_into_nothing, args=(f"{web_system.url}/mcp/{uid}", given))
    lost.start()
    wait_for(
        lambda: web_system.system.client.redis.xlen(input_of(uid)) > before,
        "the call is on the bus",
    )
    web_system.web.kill()
    web_system.system.workers[-1].send_signal(signal.SIGCONT)
    lost.join(60)
    wait_for(lambda: web_system.system.contents(uid) == ["exactly once"], "the call was executed")
    web_system.start_web()

    async def repeat() -> list[Any]:
        async with over_http(f"{web_system.url}/mcp/{uid}") as client:
            return [await call(client, "memory_write", **given) for _ in range(2)]

    first, second = asyncio.run(repeat())
    assert first == second and web_system.system.contents(uid) == ["exactly once"]
    assert web_system.system.rows(uid, "SELECT guid FROM records") == [(first["guid"],)]


def write_into_nothing(url: str, given: dict[str, Any]) -> None:
    """Make a call whose server dies before it answers."""

    async def write() -> None:
        async with over_http(url) as client:
            await client.call_tool("memory_write", given)

    with pytest.raises((MCPError, httpx2.HTTPError, BaseExceptionGroup)):
        asyncio.run(write())


def test_f_a_stream_of_updates_takes_at_most_40_kb(web_system: WebSystem) -> None:
    """The drop of a slow stream is tested in tests/web/mcp/test_slow_streams.py."""
    uid = web_system.deploy()
    path = f"/v1/pipelines/{uid}/records"
    guid = ask(web_system.url, "POST", path, {"content": "x"}).json["guid"]
    uri = f"memory://{uid}/records/{guid}"
    client = McpCalls(web_system.url, f"/mcp/{uid}")
    with ExitStack() as warm_up:
        for _ in range(20):
            warm_up.enter_context(client.listen(uri))
    before_kb = resident_kb(web_system.web.pid)

    with ExitStack() as stack:
        streams = [stack.enter_context(client.listen(uri)) for _ in range(STREAMS)]
        ask(web_system.url, "PATCH", f"{path}/{guid}", {"content": "y"})
        heard = {stream.hear_update() for stream in streams}
        grown_kb = resident_kb(web_system.web.pid) - before_kb

    assert heard == {uri}
    assert grown_kb / STREAMS <= 40


def resident_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1])

"""`memrelay mcp`: its options, the printed configurations, and a client behind a key."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from memrelay import open_store
from memrelay.cli.commands.mcp import CLIENTS
from memrelay.web.mcp.tool_handlers import TOOLSETS
from tests.support.keys import make_key, revoke
from tests.support.mcp_clients import call, names_of_tools, over_stdio, refused
from tests.support.program import COMMAND, Program
from tests.support.web_system import WebSystem

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


@pytest.fixture
def program() -> Iterator[Program]:
    with Program() as program:
        yield program


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as web_system:
        yield web_system


def environment_of(web_system: WebSystem) -> dict[str, str]:
    return {
        "MEMRELAY_BUS__URL": f"unix://{web_system.system.client.socket}",
        "MEMRELAY_MEMORY__ROOT": str(web_system.system.root),
    }


@pytest.mark.parametrize(
    "arguments, fix",
    [
        ([], "name a PIPELINE, or a store with --file"),
        (["notes", "--file", "notes.db"], "not both"),
        (["notes", "--toolset", "all"], "memory, graph, files"),
        (["notes", "--print", "emacs"], "claude-desktop"),
        (["--file", "notes.db", "--key", "mr_x"], "a file has no keys"),
    ],
)
def test_options_that_do_not_fit_are_explained(
    program: Program, arguments: list[str], fix: str
) -> None:
    done = program.run("mcp", *arguments)

    assert (done.code, done.out) == (1, "")
    assert fix in done.err


@pytest.mark.parametrize("client", CLIENTS)
def test_a_printed_configuration_works_from_any_folder(program: Program, client: str) -> None:
    done = program.run("mcp", "--file", "notes.db", "--toolset", "files", "--print", client)

    printed = json.loads(done.out)
    keys = {"vscode": "servers", "zed": "context_servers", "claude-code": ""}
    key = keys.get(client, "mcpServers")
    entry = printed[key]["memrelay"] if key else printed
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][-5:] == [
        "mcp",
        "--file",
        str(program.folder / "notes.db"),
        "--toolset",
        "files",
    ]
    assert entry["env"]["MEMRELAY_MEMORY__ROOT"] == str(program.root)
    assert entry.get("type", "stdio") == "stdio"
    assert not (program.folder / "notes.db").exists()


def test_the_process_ends_with_stdin_and_prints_only_json(program: Program) -> None:
    done = program.run_process("mcp", "--file", "notes.db", stdin=PING)

    assert done.code == 0
    assert [(line["id"], line["result"]) for line in done.lines] == [(1, {})]


def test_a_file_that_another_process_holds_is_served_when_it_is_free(program: Program) -> None:
    file, settings = program.folder / "notes.db", program.folder / "config.yaml"
    settings.write_text("site: of another program\n")

    async def talk() -> tuple[str, Any]:
        async with over_stdio("--file", "notes.db", folder=program.folder) as client:
            held = await refused(client, "memory_read")
            other.close()
            return held, await call(client, "memory_read")

    with ExitStack() as other:
        other.enter_context(open_store(file))
        held, free = asyncio.run(talk())

    assert f"is open in another program (process {os.getpid()}, " in held and "Retry" in held
    assert free["items"] == []
    assert f"{settings} is not read" in (program.folder / "mcp.log").read_text()


def test_a_home_folder_in_a_path_is_expanded(program: Program) -> None:
    home = str(program.folder / "home")

    done = program.run_process("mcp", "--file", "~/notes.db", "--print", "cursor", HOME=home)

    assert f"{home}/notes.db" in json.loads(done.out)["mcpServers"]["memrelay"]["args"]


def test_a_malformed_request_is_answered(program: Program) -> None:
    begin = b'{"jsonrpc":"2.0","id":'
    tool = b',"method":"tools/call","params":{"name":"memory_remember","arguments":'
    lines = [
        begin + b"1" + tool + rb'{"text":"half \ud83d"}}}',
        begin + b'"two"' + tool + rb'{"\udc00":1}}}',
        begin + rb'"\ud800","method":"ping"}',
        begin + b"4}",
        b"nonsense",
        rb'{"jsonrpc":"2.0","method":"notifications/\ud800"}',
        b"",
        begin + b'7,"method":"ping"}',
    ]

    done = program.run_process("mcp", "--file", "notes.db", stdin=b"\n".join([*lines, b""]))

    codes = [(one["id"], one.get("error", {}).get("code")) for one in done.lines]
    assert codes == [
        (1, -32602),
        ("two", -32602),
        (None, -32602),
        (4, -32600),
        (None, -32700),
        (7, None),
    ]
    assert "send whole characters" in done.lines[0]["error"]["message"]


def test_a_signal_ends_the_process_while_a_client_is_connected(program: Program) -> None:
    with subprocess.Popen(
        [*COMMAND, "mcp", "--file", "notes.db"],
        cwd=program.folder,
        env=program.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(PING)
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1

        process.send_signal(signal.SIGTERM)

        assert process.wait(20) != 0


@pytest.mark.parametrize("toolset", TOOLSETS)
def test_a_file_offers_each_toolset(program: Program, toolset: str) -> None:
    async def talk() -> list[str]:
        arguments = ("--file", "notes.db", "--toolset", toolset)
        async with over_stdio(*arguments, folder=program.folder) as client:
            return await names_of_tools(client)

    assert asyncio.run(talk()) == sorted(tool.name for tool in TOOLSETS[toolset])


def test_a_key_limits_the_tools_of_a_pipeline(web_system: WebSystem, tmp_path: Path) -> None:
    uid, key = web_system.deploy(), make_key(web_system.system.root, "search")
    (tmp_path / "key").write_text(f"{key.text}\n")

    async def talk() -> tuple[list[str], str]:
        async with over_stdio(
            uid, "--key", "file:key", folder=tmp_path, environment=environment_of(web_system)
        ) as client:
            return await names_of_tools(client), await refused(client, "memory_write", content="x")

    names, text = asyncio.run(talk())
    assert names == ["memory_recall", "memory_search"]
    assert "scope write" in text


def test_what_a_client_with_a_key_writes_has_the_key(web_system: WebSystem, tmp_path: Path) -> None:
    uid, key = web_system.deploy(), make_key(web_system.system.root, name="mcp")

    async def talk() -> None:
        async with over_stdio(
            uid, "--key", key.text, folder=tmp_path, environment=environment_of(web_system)
        ) as client:
            await call(client, "memory_write", content="tea")

    asyncio.run(talk())
    found = web_system.system.rows(uid, "SELECT actor, profile, key FROM origins")
    assert found == [("mcp", "mcp", key.id)]


def test_a_key_that_is_revoked_ends_the_calls_of_its_client(
    web_system: WebSystem, tmp_path: Path
) -> None:
    uid, key = web_system.deploy(), make_key(web_system.system.root, "read")

    async def talk() -> tuple[list[str], str]:
        async with over_stdio(
            uid, "--key", key.text, folder=tmp_path, environment=environment_of(web_system)
        ) as client:
            assert "items" in await call(client, "memory_read")
            await asyncio.to_thread(revoke, web_system.system.root, key)
            async with asyncio.timeout(20):
                while names := await names_of_tools(client):
                    await asyncio.sleep(0.1)
            return names, await refused(client, "memory_read")

    names, text = asyncio.run(talk())
    assert names == []
    assert "needs a key" in text


def test_a_text_beyond_the_limit_of_a_message_is_not_retried(
    web_system: WebSystem, tmp_path: Path
) -> None:
    uid = web_system.deploy()

    async def talk() -> str:
        async with over_stdio(
            uid, folder=tmp_path, environment=environment_of(web_system)
        ) as client:
            return await refused(client, "memory_write", content="x" * 2_000_000)

    text = asyncio.run(talk())
    assert "bus.max_message_bytes allows" in text
    assert "Retry" not in text


def test_a_key_that_may_not_be_used_ends_the_command(
    program: Program, web_system: WebSystem
) -> None:
    uid, other = web_system.deploy(), web_system.deploy()
    foreign = make_key(web_system.system.root, pipelines=(other,))
    expired = make_key(web_system.system.root, lasts_ms=-1)

    ends = [
        program.run("mcp", uid, "--key", text, **environment_of(web_system))
        for text in (foreign.text, expired.text, "mr_x", "file:missing")
    ]

    assert [end.code for end in ends] == [1, 1, 1, 1]
    for end, reason in zip(
        ends, ("is not for pipeline", "has expired", "malformed", "missing"), strict=True
    ):
        assert reason in end.err

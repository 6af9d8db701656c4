"""The configurations and programs of docs/mcp/ run as shown."""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.child import CHECKOUT
from tests.support.keys import make_key
from tests.support.mcp_clients import (
    STATELESS,
    from_configuration,
    names_of_tools,
    over_http,
    started,
)
from tests.support.npm import npm_command, npm_environment
from tests.support.sessions import fences
from tests.support.web_system import WebSystem

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # some install packages
PAGES = CHECKOUT / "docs/mcp"
# The pages with configurations, and how many each has.
CONFIGURED = {
    "claude-desktop": 2,
    "claude-code": 2,
    "cursor": 2,
    "vscode": 2,
    "windsurf": 2,
    "zed": 2,
    "codex": 2,
    "gemini-cli": 2,
    "chatgpt": 1,
    "n8n": 1,
}
# What clients call the URL and the headers of a server.
URLS = ("url", "serverUrl", "httpUrl", "server_url", "endpointUrl")
HEADERS = ("headers", "http_headers")
SHOWN_URL, SHOWN_UID, SHOWN_HOME = "http://127.0.0.1:8765", "3f9c2a71", "/home/ada"
SHOWN_BUS = "unix:///home/ada/memrelay/data/bus/server.sock"
INSTALL_TIMEOUT_S = 400


class Reader:
    """A reader of the pages, with a running product, a key and a home folder."""

    def __init__(self, web_system: WebSystem, home: Path) -> None:
        self.web_system, self.home = web_system, home
        self.uid = web_system.deploy()
        self.key = make_key(web_system.system.root).text
        commands = home / "bin"
        commands.mkdir()
        program = commands / "memrelay"
        program.write_text(
            f'#!/bin/sh\nPYTHONPATH={CHECKOUT} exec {sys.executable} -m memrelay.cli.main "$@"\n'
        )
        program.chmod(0o755)
        self.environment = npm_environment() | {
            "HOME": str(home),
            "PATH": f"{commands}{os.pathsep}{npm_environment()['PATH']}",
            "MEMRELAY_MEMORY__ROOT": str(web_system.system.root),
        }

    def adapt(self, text: str) -> str:
        """Return an example with this run's address, uid, key and folder."""
        bus = f"unix://{self.web_system.system.client.socket}"
        changed = {
            SHOWN_BUS: bus,
            SHOWN_URL: self.web_system.url,
            SHOWN_UID: self.uid,
            SHOWN_HOME: str(self.home),
            "Bearer KEY": f"Bearer {self.key}",
            '"authorization": "KEY"': f'"authorization": "{self.key}"',
        }
        for shown, real in changed.items():
            text = text.replace(shown, real)
        return text

    def examples(self, page: str, language: str) -> list[str]:
        """Return the adapted examples of a page."""
        shown = fences(PAGES / f"{page}.md")
        return [self.adapt(text) for each, text in shown if each == language]

    def run(self, *command: str) -> str:
        """Run a command in the home folder and return its output."""
        ended = subprocess.run(
            command,
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
        assert ended.returncode == 0, ended
        return ended.stdout


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with WebSystem(WEB__RATE="0") as web_system:
        yield Reader(web_system, tmp_path)


@pytest.mark.parametrize("page", CONFIGURED)
def test_each_configuration_of_a_page_leads_to_the_tools(reader: Reader, page: str) -> None:
    configurations = [
        *map(json.loads, reader.examples(page, "json")),
        *map(tomllib.loads, reader.examples(page, "toml")),
    ]

    names = [asyncio.run(list_tools(reader, one)) for one in configurations]

    assert len(names) == CONFIGURED[page]
    assert all("memory_recall" in each for each in names)


async def list_tools(reader: Reader, configuration: dict[str, Any]) -> list[str]:
    """Return the tools of the server that a configuration names."""
    entry = find_entry(configuration)
    for name in URLS:
        if name in entry:
            async with over_http(entry[name], STATELESS, find_key(reader, entry)) as client:
                return await names_of_tools(client)
    environment = {"MEMRELAY_MEMORY__ROOT": str(reader.web_system.system.root)}
    entry["env"] = environment | entry.get("env", {})
    async with started(from_configuration(entry, reader.home), reader.home) as client:
        return await names_of_tools(client)


def find_entry(configuration: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of the server: the only one of a file, or that of a single server."""
    if len(configuration) == 1:
        (servers,) = configuration.values()
        entry: dict[str, Any] = servers["memrelay"]
        return entry
    return configuration.get("parameters", configuration)


def find_key(reader: Reader, entry: dict[str, Any]) -> str:
    """Return the key that a client sends. A credential of n8n holds it, not the node."""
    if entry.get("authentication") == "bearerAuth":
        return reader.key
    if "authorization" in entry:
        return str(entry["authorization"])
    (headers,) = (entry[name] for name in HEADERS if name in entry)
    return str(headers["Authorization"]).removeprefix("Bearer ")


def test_claude_code_connects_to_the_servers_of_its_page(reader: Reader) -> None:
    commands = [shlex.split(text) for text in reader.examples("claude-code", "bash")]
    claude = npm_command("claude")

    for command in commands:
        assert command[0] == "claude"
        reader.run(*claude, *command[1:])
    listed = reader.run(*claude, "mcp", "list")

    states = re.findall(r"^(memrelay[\w-]*):.*Connected", listed, re.MULTILINE)
    assert sorted(states) == ["memrelay", "memrelay-http"], listed


@pytest.mark.parametrize("place", [0, 1], ids=["file", "server"])
def test_an_example_of_the_agents_sdk_runs(reader: Reader, place: int) -> None:
    example = reader.examples("openai-agents", "python")[place]

    # Isolated: the folder `agents` of the checkout would hide the package of that name.
    printed = reader.run(sys.executable, "-P", "-c", isolated(example))

    assert "memory_remember" in printed and "Ada likes tea" in printed


def isolated(example: str) -> str:
    """Return a program that imports nothing from the checkout."""
    return (
        "import sys\n"
        f"sys.path[:] = [path for path in sys.path if path != {str(CHECKOUT)!r}]\n{example}"
    )


@pytest.mark.parametrize("place", [0, 1], ids=["file", "server"])
def test_an_example_of_langchain_runs(reader: Reader, langchain: str, place: int) -> None:
    printed = reader.run(langchain, "-c", reader.examples("langchain", "python")[place])

    assert "memory_remember" in printed and "Ada likes tea" in printed

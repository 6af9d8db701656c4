"""Clients of the MCP SDK, connected to the product over stdio and over HTTP."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.support.child import CHECKOUT
from tests.support.program import COMMAND

HANDSHAKE, STATELESS = "legacy", "2026-07-28"
READ_TIMEOUT_S = 60.0
JsonObject = dict[str, Any]


@asynccontextmanager
async def over_http(url: str, mode: str = STATELESS, key: str = "") -> AsyncIterator[Client]:
    """Connect to a URL. `mode` selects the handshake of older revisions or the newest revision."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(headers=headers, timeout=READ_TIMEOUT_S) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=READ_TIMEOUT_S) as client:
            yield client


@asynccontextmanager
async def over_stdio(
    *arguments: str, folder: Path, environment: dict[str, str] | None = None
) -> AsyncIterator[Client]:
    """Start `memrelay mcp ARGUMENTS` and connect to it. Its logs go to mcp.log in `folder`."""
    parameters = StdioServerParameters(
        command=COMMAND[0],
        args=[*COMMAND[1:], "mcp", *arguments],
        env={"PYTHONPATH": str(CHECKOUT)} | (environment or {}),
        cwd=folder,
    )
    async with started(parameters, folder) as client:
        yield client


@asynccontextmanager
async def started(parameters: StdioServerParameters, folder: Path) -> AsyncIterator[Client]:
    """Start the program that a configuration names, and connect to it."""
    with (folder / "mcp.log").open("a") as log:
        transport = stdio_client(parameters, errlog=log)
        async with Client(transport, read_timeout_seconds=READ_TIMEOUT_S) as client:
            yield client


def from_configuration(entry: JsonObject, folder: Path) -> StdioServerParameters:
    """Return the program of an entry of a client's configuration.

    The command `memrelay` becomes the one of this checkout.
    """
    command, arguments = [entry["command"]], list(entry.get("args", ()))
    if command == ["memrelay"]:
        command = [sys.executable, "-m", "memrelay.cli.main"]
    return StdioServerParameters(
        command=command[0],
        args=[*command[1:], *arguments],
        env={"PYTHONPATH": str(CHECKOUT)} | entry.get("env", {}),
        cwd=folder,
    )


async def names_of_tools(client: Client) -> list[str]:
    """Return the sorted names of the tools that a client sees."""
    return sorted(tool.name for tool in (await client.list_tools()).tools)


async def call(client: Client, tool: str, **arguments: Any) -> JsonObject:
    """Return the value of a tool call that succeeds."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    value: JsonObject = result.structured_content
    return value


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """Return the text of a tool call that fails."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    return "".join(block.text for block in result.content if block.type == "text")

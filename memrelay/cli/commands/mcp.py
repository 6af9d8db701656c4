"""`memrelay mcp PIPELINE`: serve an MCP client over stdin and stdout."""

import asyncio
import shutil
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from memrelay.bus.request import Requester
from memrelay.bus.streams.channels import Channels
from memrelay.cli.composition import (
    bus_address,
    fail,
    find_pipeline,
    make_reference_absolute,
    make_seal_keys,
    make_secrets_of_operator,
    note,
    open_catalog,
    run,
    run_with_settings,
    seal_references,
)
from memrelay.cli.imports import load
from memrelay.cli.options import PipelineOrNone
from memrelay.cli.settings import CONFIG_VARIABLE, Settings, default_config_file
from memrelay.cli.terminal.output import print_json
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.keys import ALL, SCOPES, Key, check_key
from memrelay.web.mcp.change_reader import Bus, ChangeReaders
from memrelay.web.mcp.session import ACTOR, Session
from memrelay.web.mcp.tool import NOT_INSTALLED, SDK
from memrelay.web.mcp.toolsets import MEMORY, NAMES
from memrelay.web.mcp.transports.local_targets import BusConnection, BusTarget, FileTarget

# How often a key is read again, which may be revoked meanwhile.
READ_KEY_S = 1.0
REFERENCES = ("env:", "file:")
NAME = "memrelay"
CLIENTS = ("claude-desktop", "claude-code", "cursor", "vscode")
STDIO = "memrelay.web.mcp.transports.stdio"
Toolset = Annotated[
    str, typer.Option(metavar="|".join(NAMES), help="The tools that the client gets.")
]
KeyText = Annotated[
    str,
    typer.Option(
        "--key",
        metavar="KEY",
        help="Offer only what this API key permits. env:NAME and file:PATH read it from there.",
    ),
]
File = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Serve a store file, without a bus. It is created if it does not exist.",
    ),
]
Client = Annotated[
    str,
    typer.Option(
        "--print",
        metavar="|".join(CLIENTS),
        help="Print the configuration of this client instead of serving.",
    ),
]


def mcp(
    pipeline: PipelineOrNone = None,
    *,
    toolset: Toolset = MEMORY,
    key: KeyText = "",
    file: File = None,
    client: Client = "",
) -> None:
    """Serve an MCP client over stdin and stdout, until stdin ends. Logs go to stderr."""
    _check_options(pipeline, toolset, key, file, client)
    if client:
        run_with_settings(
            lambda settings: _print_configuration(
                settings, client, pipeline, toolset, key, file=file
            )
        )
    elif file is not None:
        run(lambda settings: _serve_file(settings, file, toolset))
    else:
        run(lambda settings: _serve_pipeline(settings, pipeline or "", toolset, key))


def _check_options(
    pipeline: str | None, toolset: str, key: str, file: Path | None, client: str
) -> None:
    """End the command if the options do not fit together."""
    if (pipeline is None) == (file is None):
        fail("name a PIPELINE, or a store with --file FILE, and not both")
    if toolset not in NAMES:
        fail(f"--toolset must be one of {', '.join(NAMES)}")
    if client and client not in CLIENTS:
        fail(f"--print must be one of {', '.join(CLIENTS)}")
    if key and file is not None:
        fail("a file has no keys; omit --key, or serve a pipeline")
    if find_spec(SDK) is None:
        fail(NOT_INSTALLED)


async def _serve_pipeline(settings: Settings, pipeline: str, toolset: str, key: str) -> None:
    async with AsyncExitStack() as stack:
        catalog = await stack.enter_async_context(open_catalog(settings))
        uid = (await find_pipeline(catalog, pipeline)).uid
        held = _HeldKey(catalog, await _find_key(catalog, key, uid)) if key else None
        address = bus_address(settings)
        requester = await stack.enter_async_context(Requester(address))
        channels = await stack.enter_async_context(Channels(address))
        if held is not None:
            await stack.enter_async_context(held)
        readers = ChangeReaders(Bus(requester, channels, settings.web.call_timeout_s))
        connection = BusConnection(
            requester,
            make_seal_keys(settings),
            settings.web.call_timeout_s,
            held.scopes if held else lambda: SCOPES,
            held.name if held else ACTOR,
        )
        session = Session(toolset, lambda uid: BusTarget(connection, uid), uid=uid, readers=readers)
        await load(STDIO).serve_stdio(session)


async def _find_key(catalog: Catalog, reference: str, uid: str) -> Key:
    """Return the key. End the command if it is not for this pipeline. Raises InvalidKey."""
    text = reference
    if reference.startswith(REFERENCES):
        text = await _resolve(make_reference_absolute(reference, Path.cwd()))
    keys = {key.id: key for key in await catalog.keys.every()}
    key = check_key(keys, text, _now_ms())
    if uid not in key.pipelines and ALL not in key.pipelines:
        fail(f"the key {key.name!r} is not for pipeline {uid}; use one of its keys")
    return key


async def _resolve(reference: str) -> str:
    """Return the secret of a reference. End the command if there is none."""
    try:
        return (await make_secrets_of_operator().resolve(reference)).strip()
    except LookupError as error:
        fail(str(error))


class _HeldKey:
    """The key of a client. While it is a context, the key is read again, as it may be revoked."""

    def __init__(self, catalog: Catalog, key: Key) -> None:
        self._catalog, self._key = catalog, key
        self._reading: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The name of the key, the actor of changes."""
        return self._key.name

    def scopes(self) -> Collection[str]:
        """Return the scopes; none after the key ended, or when it can no longer be read."""
        is_read = self._reading is not None and not self._reading.done()
        return self._key.scopes if is_read and not self._key.fault(_now_ms()) else frozenset()

    async def __aenter__(self) -> "_HeldKey":
        self._reading = asyncio.create_task(self._read_again())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait((self._reading,))

    async def _read_again(self) -> None:
        while True:
            await asyncio.sleep(READ_KEY_S)
            keys = {key.id: key for key in await self._catalog.keys.every()}
            self._key = keys[self._key.id]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def _serve_file(settings: Settings, file: Path, toolset: str) -> None:
    keys = [await _resolve(one) for one in seal_references(settings)]
    # A client of a pipeline must not load the store engine.
    with load("memrelay.embedded.store").open_store(file, ACTOR, seal_keys=keys) as store:
        target = FileTarget(store.operate)
        session = Session(toolset, lambda _: target, uid="")
        await load(STDIO).serve_stdio(session)


def _print_configuration(
    settings: Settings,
    client: str,
    pipeline: str | None,
    toolset: str,
    key: str,
    *,
    file: Path | None,
) -> None:
    served = [pipeline] if file is None else ["--file", str(file.absolute())]
    options = ["--toolset", toolset] if toolset != MEMORY else []
    if key:
        options += ["--key", make_reference_absolute(key, Path.cwd())]
    command, first = _find_command()
    arguments = [*first, "mcp", *served, *options]
    print_json(
        make_configuration(client, command, arguments, _make_environment(settings)), indent=True
    )


def _find_command() -> tuple[str, list[str]]:
    """Return the program and its first arguments. Clients start it in any folder."""
    found = shutil.which(sys.argv[0])
    if found is not None and Path(found).name == "memrelay":
        return str(Path(found).absolute()), []
    return sys.executable, ["-m", "memrelay.cli.main"]


def _make_environment(settings: Settings) -> dict[str, str]:
    """Return the variables with which the client finds the same data from any folder."""
    config = default_config_file()
    variables = {CONFIG_VARIABLE: str(config.absolute())} if config else {}
    variables["MEMRELAY_MEMORY__ROOT"] = str(settings.memory.root.absolute())
    if not settings.bus.url:
        variables["MEMRELAY_BUS__DATA"] = str(settings.bus.data.absolute())
    elif "@" in settings.bus.url:
        note("the URL of the bus has a password; add MEMRELAY_BUS__URL to `env` yourself")
    else:
        variables["MEMRELAY_BUS__URL"] = settings.bus.url
    return variables


def make_configuration(
    client: str, command: str, arguments: Sequence[str], environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return the JSON with which an MCP client starts `memrelay mcp`.

    That of Claude Code is the argument of `claude mcp add-json memrelay`. The others are whole
    files.
    """
    start = {"command": command, "args": list(arguments), "env": dict(environment)}
    if client == "claude-code":
        return {"type": "stdio", **start}
    if client == "vscode":
        return {"servers": {NAME: {"type": "stdio", **start}}}
    return {"mcpServers": {NAME: start}}

"""`memrelay mcp PIPELINE`: serve an MCP client over stdin and stdout."""

import asyncio
import shutil
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
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
from memrelay.cli.settings import (
    CHECKOUT_FILE,
    CONFIG_VARIABLE,
    CURRENT_FILE,
    Settings,
    default_config_file,
    process_environment,
)
from memrelay.cli.terminal.output import print_json
from memrelay.cli.time_zone import find_machine_zone
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.keys import ALL, SCOPES, Key, check_key
from memrelay.memory.engine.time_zones import check_zone
from memrelay.memory.errors import Refused, StoreBusy
from memrelay.web.mcp.change_reader import Bus, ChangeReaders
from memrelay.web.mcp.session import ACTOR, Session
from memrelay.web.mcp.tool import NOT_INSTALLED, SDK
from memrelay.web.mcp.toolsets import MEMORY, NAMES
from memrelay.web.mcp.transports.local_targets import BusConnection, BusTarget, FileTarget
from memrelay.worker.ownership.host_locks import NotTheOwner

# How often a key is read again, which may be revoked meanwhile.
READ_KEY_S = 1.0
REFERENCES = ("env:", "file:")
NAME = "memrelay"
CLIENTS = ("claude-desktop", "claude-code", "cursor", "vscode", "windsurf", "zed", "gemini-cli")
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
TimeZone = Annotated[
    str,
    typer.Option(
        metavar="ZONE",
        help="The time zone of days such as `yesterday`. By default the pipeline's; with --file "
        "the setting or the machine's.",
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


@dataclass(frozen=True, slots=True)
class Served:
    """What a client gets: the tools of a pipeline, or of a store file."""

    pipeline: str | None
    file: Path | None
    toolset: str
    key: str
    timezone: str

    @property
    def arguments(self) -> list[str]:
        """Return the arguments with which a client starts the command from any folder."""
        served = ["--file", str(self.file.absolute())] if self.file else [str(self.pipeline)]
        options = ["--toolset", self.toolset] if self.toolset != MEMORY else []
        if self.key:
            options += ["--key", make_reference_absolute(self.key, Path.cwd())]
        if self.timezone:
            options += ["--timezone", self.timezone]
        return ["mcp", *served, *options]


def mcp(
    pipeline: PipelineOrNone = None,
    *,
    toolset: Toolset = MEMORY,
    key: KeyText = "",
    file: File = None,
    timezone: TimeZone = "",
    client: Client = "",
) -> None:
    """Serve an MCP client over stdin and stdout, until stdin ends. Logs go to stderr."""
    served = Served(pipeline, file and _expand(file), toolset, key, timezone)
    _check_options(served, client)
    if client:
        run_with_settings(lambda settings: _print_configuration(settings, client, served))
        return
    _note_ignored_settings()
    serve = _serve_pipeline if served.file is None else _serve_file
    run(lambda settings: serve(settings, served), in_any_folder=True)


def _expand(path: Path) -> Path:
    """Return a path without `~`. A client starts the program without a shell."""
    try:
        return path.expanduser()
    except RuntimeError:
        fail(f"{path}: this user has no home folder; write an absolute path")


def _note_ignored_settings() -> None:
    """Note a file of settings that is not read, because it may be that of another program."""
    is_named = bool(process_environment().get(CONFIG_VARIABLE))
    if CURRENT_FILE.is_file() and not is_named and CURRENT_FILE.resolve() != CHECKOUT_FILE:
        note(
            f"{CURRENT_FILE.absolute()} is not read, because clients start this program in folders "
            f"of theirs; to read it, set {CONFIG_VARIABLE} to its path"
        )


def _check_options(served: Served, client: str) -> None:
    """End the command if the options do not fit together."""
    if (served.pipeline is None) == (served.file is None):
        fail("name a PIPELINE, or a store with --file FILE, and not both")
    if served.toolset not in NAMES:
        fail(f"--toolset must be one of {', '.join(NAMES)}")
    if client and client not in CLIENTS:
        fail(f"--print must be one of {', '.join(CLIENTS)}")
    if served.key and served.file is not None:
        fail("a file has no keys; omit --key, or serve a pipeline")
    try:
        check_zone(served.timezone)
    except Refused as error:
        fail(f"--timezone: {error}")
    if find_spec(SDK) is None:
        fail(NOT_INSTALLED)


async def _serve_pipeline(settings: Settings, served: Served) -> None:
    async with AsyncExitStack() as stack:
        catalog = await stack.enter_async_context(open_catalog(settings))
        uid = (await find_pipeline(catalog, served.pipeline or "")).uid
        held = _HeldKey(catalog, await _find_key(catalog, served.key, uid)) if served.key else None
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
            held.id if held else "",
        )
        session = Session(
            served.toolset,
            lambda uid: BusTarget(connection, uid),
            uid=uid,
            readers=readers,
            timezone=served.timezone,
        )
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

    @property
    def id(self) -> str:
        """The id of the key, part of the origin of changes."""
        return self._key.id

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


class _LazyStore:
    """A store file that opens at its first call.

    While another process holds it, calls fail, and each one tries again.
    """

    def __init__(self, file: Path, seal_keys: Sequence[str]) -> None:
        self._file, self._seal_keys = file, seal_keys
        self._stack, self._turn = ExitStack(), Lock()
        self._store: Any = None

    def operate(self, name: str, input: Mapping[str, Any], *, as_of: str = "") -> Any:
        """Call an operation on the file. Raises MemoryFault."""
        with self._turn:
            if self._store is None:
                self._store = self._open()
        return self._store.operate(name, input, as_of=as_of)

    def close(self) -> None:
        """Close the file, if it was opened."""
        with self._turn:
            self._stack.close()

    def _open(self) -> Any:
        # A client of a pipeline must not load the store engine.
        module = load("memrelay.embedded.store")
        try:
            return self._stack.enter_context(
                module.open_store(self._file, ACTOR, seal_keys=self._seal_keys)
            )
        except NotTheOwner as error:
            raise StoreBusy(f"{error}; or serve its pipeline: memrelay mcp PIPELINE") from error
        except OSError as error:
            raise Refused(
                f"{error.filename or self._file}: {error.strerror}; write the absolute path of a "
                "file that this user may write, after --file"
            ) from error


async def _serve_file(settings: Settings, served: Served) -> None:
    assert served.file is not None
    keys = [await _resolve(one) for one in seal_references(settings)]
    with closing(_LazyStore(served.file.absolute(), keys)) as store:
        target = FileTarget(store.operate)
        # The client runs on the machine of its user.
        zone = served.timezone or settings.memory.timezone or find_machine_zone()
        session = Session(served.toolset, lambda _: target, uid="", timezone=zone)
        await load(STDIO).serve_stdio(session)


def _print_configuration(settings: Settings, client: str, served: Served) -> None:
    command, first = _find_command()
    arguments = [*first, *served.arguments]
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
    if client == "zed":
        return {"context_servers": {NAME: start}}
    return {"mcpServers": {NAME: start}}

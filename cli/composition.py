"""The composition root: concrete classes from settings."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import typer
import uvloop

from memrelay.blocks.sources import use_folders
from memrelay.bus.client.url import Address, parse
from memrelay.bus.embedded.socket_path import socket_of
from memrelay.bus.errors import BusError, BusRefused, EmbeddedServerError
from memrelay.cli.logs import LogFormat, configure_logging
from memrelay.cli.settings import Settings, SettingsError, load_settings, may_color
from memrelay.cli.terminal.output import escaped
from memrelay.memory.control.catalog import Catalog, Deployed, is_begun
from memrelay.memory.disk import ROOM, is_disk_full
from memrelay.memory.errors import MemoryFault
from memrelay.worker.errors import first_of
from memrelay.worker.ownership.host_locks import NotTheOwner

Result = TypeVar("Result")
FAULTS = (
    BusError,
    EmbeddedServerError,
    MemoryFault,
    NotTheOwner,
    SettingsError,
    OSError,
    UnicodeEncodeError,
)
MOST_NAMED = 10  # pipelines, to choose from


@dataclass(frozen=True, slots=True)
class NoBus(BusError):
    """No bus is configured and none of ours runs."""

    data: Path

    def __str__(self) -> str:
        """The rule and the remedy."""
        return f"no bus runs (looked in {self.data}); start one with `make up` or `memrelay up`, or set MEMRELAY_BUS__URL"


def note(sentence: str) -> None:
    """Something to know beside what the command prints, on one line of stderr."""
    typer.echo(f"memrelay: {escaped(sentence)}", err=True)


def fail(message: str) -> NoReturn:
    """Ends the command with a sentence instead of a traceback."""
    typer.echo("\n".join(map(escaped, f"memrelay: {message}".split("\n"))), err=True)
    raise typer.Exit(1)


def settled(command: Callable[[Settings], Result], log_format: LogFormat | None = None) -> Result:
    """Runs a command with the settings; faults that a user can cause end it with a sentence and
    exit code 1."""
    try:
        settings = load_settings()
        configure_logging(
            settings.log.level, log_format or settings.log.format, may_color=may_color()
        )
        use_folders(settings.blocks.paths)
        return command(settings)
    except FAULTS as fault:
        fail(_sentence(fault))
    except BaseExceptionGroup as group:
        known = group.subgroup(FAULTS)
        if known is None:
            raise
        fail(_sentence(first_of(known)))


def _sentence(fault: BaseException) -> str:
    """What went wrong; the system's own errors name the file first."""
    if isinstance(fault, OSError) and fault.filename:
        return f"{fault.filename}: {fault.strerror}{_remedy(fault)}"
    if isinstance(
        fault, UnicodeEncodeError
    ):  # the system takes any bytes as a word or the name of a file; SQLite does not
        return (
            f"what is given must be text in UTF-8, names of files too; this is not: {fault.object}"
        )
    if isinstance(fault, BusRefused):
        return (
            f"the bus has refused it: {fault}; `memrelay doctor` says what is wrong with the server"
        )
    return str(fault)


def _remedy(fault: OSError) -> str:
    if isinstance(fault, PermissionError):
        return "; what another user made, as by sudo, that user may use"
    return f"; {ROOM}" if is_disk_full(fault) else ""


def run(
    command: Callable[[Settings], Coroutine[Any, Any, Result]], log_format: LogFormat | None = None
) -> Result:
    """The same for a command that needs an event loop."""
    return settled(lambda settings: uvloop.run(command(settings)), log_format)


def bus_address(settings: Settings) -> Address:
    """The configured server, or our own that runs. Raises NoBus."""
    if settings.bus.url:
        bus = settings.bus
        return replace(
            parse(bus.url),
            ca=str(bus.ca or ""),
            certificate=str(bus.certificate or ""),
            key=str(bus.key or ""),
        )
    socket = socket_of(settings.bus.data)
    if socket is None:
        raise NoBus(settings.bus.data)
    return Address(path=str(socket))


def bus_name(settings: Settings) -> str:
    """The bus as a person would type it, without a password."""
    return settings.bus.url.rpartition("@")[2] or str(
        socket_of(settings.bus.data) or settings.bus.data
    )


def stored_catalog(settings: Settings) -> Catalog:
    """The catalogue, for what works on things that are there. Ends the command where nothing was
    ever stored.

    To open it would make the memory root, and one whose name is mistyped would be an empty one.
    """
    if not is_begun(settings.memory.root):
        fail(
            f"nothing is stored in {settings.memory.root}; memory.root names another folder, and `memrelay deploy FILE` "
            "begins in this one"
        )
    return Catalog(settings.memory.root)


def _some(names: list[str]) -> str:
    """As many as one reads, and how many more there are."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (
        f" and {more} more, which `memrelay ls` lists" if more > 0 else ""
    )


async def pipeline_named(catalog: Catalog, uid_or_name: str) -> Deployed:
    """The deployed pipeline; ends the command where there is none, or where several have that
    name."""
    found = await catalog.find(uid_or_name)
    if found is None:
        everything = await catalog.active()
        same = [one.uid for one in everything if one.name == uid_or_name]
        if same:
            fail(
                f"{len(same)} pipelines are named {uid_or_name!r}; say which by uid: {_some(same)}"
            )
        names = _some([f"{one.name} ({one.uid})" for one in everything]) or "none is deployed"
        fail(
            f"no pipeline {uid_or_name[:100]!r}; there are: {names}. Deploy one with `memrelay deploy FILE`"
        )
    return found

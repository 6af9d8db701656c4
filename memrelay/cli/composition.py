"""The composition root: settings, logs, bus and catalog for every command."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import typer
import uvloop

from memrelay.blocks.sources import use_folders
from memrelay.bus.client.url import Address, parse
from memrelay.bus.embedded.socket_path import find_socket
from memrelay.bus.embedded.users import PASSWORD_NAME, find_address
from memrelay.bus.errors import BusError, BusRefused, EmbeddedServerError, ServerTooOld
from memrelay.bus.keys import use_cells
from memrelay.cli.logs import LogFormat, configure_logging
from memrelay.cli.settings import (
    Settings,
    SettingsError,
    load_settings,
    may_color,
    process_environment,
)
from memrelay.cli.terminal import escaped
from memrelay.guarded_http.rules import (
    DEFAULT_PORTS,
    Guard,
    ListedPurpose,
    OutgoingRules,
    PrivateHost,
    SecretBinding,
    find_port,
)
from memrelay.memory import seal_keys
from memrelay.memory.control.catalog import Catalog, Deployed, catalog_exists
from memrelay.memory.engine.disk import FREE_SPACE, is_disk_full
from memrelay.memory.errors import MemoryFault
from memrelay.pipelines.secret_references import SecretResolver
from memrelay.worker.errors import first_cause
from memrelay.worker.ownership.host_locks import NotTheOwner

Result = TypeVar("Result")
# Errors that a user can cause. They end a command with a sentence instead of a traceback.
USER_ERRORS = (
    BusError,
    EmbeddedServerError,
    MemoryFault,
    NotTheOwner,
    ServerTooOld,
    SettingsError,
    OSError,
    UnicodeEncodeError,
)
# Pipelines that an error message lists.
MAX_LISTED = 10
POSTGRESQL_PORT = 5432


@dataclass(frozen=True, slots=True)
class NoBus(BusError):
    """No bus is configured, and no embedded one runs."""

    data: Path

    def __str__(self) -> str:
        return (
            f"no bus runs (looked in {self.data}); start one with `make up` or `memrelay up`, or "
            "set MEMRELAY_BUS__URL"
        )


def note(sentence: str) -> None:
    """Print a hint on one line of stderr."""
    typer.echo(f"memrelay: {escaped(sentence)}", err=True)


def fail(message: str) -> NoReturn:
    """Print an error to stderr and end the command with exit code 1."""
    typer.echo("\n".join(map(escaped, f"memrelay: {message}".split("\n"))), err=True)
    raise typer.Exit(1)


def run_with_settings(
    command: Callable[[Settings], Result],
    log_format: LogFormat | None = None,
    *,
    in_any_folder: bool = False,
) -> Result:
    """Load the settings, configure the logs and run a command.

    `in_any_folder` leaves out the settings of the current folder. An error that a user can cause
    ends the command with a sentence and exit code 1.
    """
    try:
        settings = load_settings(in_any_folder=in_any_folder)
        configure_logging(
            settings.log.level, log_format or settings.log.format, may_color=may_color()
        )
        use_folders(settings.blocks.paths)
        return command(settings)
    except USER_ERRORS as error:
        fail(_sentence(error))
    except BaseExceptionGroup as group:
        known = group.subgroup(USER_ERRORS)
        if known is None:
            raise
        fail(_sentence(first_cause(known)))


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}{_remedy(error)}"
    if isinstance(error, UnicodeEncodeError):
        # The system accepts any bytes as an argument or a file name; SQLite does not.
        return f"arguments and file names must be text in UTF-8; this is not: {error.object}"
    if isinstance(error, BusRefused):
        return f"the bus refused the request: {error}; run `memrelay doctor` to find the cause"
    return str(error)


def _remedy(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "; run Memrelay as the user who owns it (was it created with sudo?)"
    return f"; {FREE_SPACE}" if is_disk_full(error) else ""


def run(
    command: Callable[[Settings], Coroutine[Any, Any, Result]],
    log_format: LogFormat | None = None,
    *,
    in_any_folder: bool = False,
) -> Result:
    """Run a command in an event loop, as `run_with_settings` does."""
    return run_with_settings(
        lambda settings: uvloop.run(command(settings)), log_format, in_any_folder=in_any_folder
    )


def make_secrets(settings: Settings) -> SecretResolver:
    """Return the resolver of references in bundles."""
    return SecretResolver(
        secrets_folder(settings),
        process_environment(),
        settings.secrets.env,
        for_blocks=settings.agents.secrets,
        outgoing=make_outgoing_rules(settings),
    )


def make_outgoing_rules(settings: Settings, bus: Address | None = None) -> OutgoingRules:
    """Return the rules for outgoing requests. They never reach `bus`, the web server or storage."""
    outgoing, web = settings.outgoing, settings.web
    own = [(web.host, web.port)]
    if bus is not None:
        own += [(bus.host, bus.port)] if bus.host else []
        own += [*bus.sentinels, *bus.nodes]
    storage = urlsplit(settings.storage.url)
    if storage.hostname:
        own.append((storage.hostname, storage.port or POSTGRESQL_PORT))
    return OutgoingRules(
        frozenset(outgoing.ports),
        outgoing.http,
        private=tuple(
            PrivateHost(
                one.host.lower(), one.port, frozenset(one.purposes), frozenset(one.pipelines)
            )
            for one in outgoing.private
        ),
        open_for=frozenset(("models", "import") if settings.agents.private else ()),
        own=tuple(own),
        web_port=web.port,
        max_hops=settings.worker.max_hops,
        webhook_path=f"{web.base_path}/webhooks/",
        secrets=tuple(
            SecretBinding(
                one.ref, frozenset(host.lower() for host in one.hosts), frozenset(one.pipelines)
            )
            for one in outgoing.secrets
        ),
    )


def is_listed(settings: Settings, purpose: ListedPurpose, url: str, uid: str = "") -> bool:
    """Return whether `outgoing.private` lists the host and port of a URL for a purpose."""
    parts = urlsplit(url)
    guard = Guard(make_outgoing_rules(settings), purpose, uid)
    return parts.scheme in DEFAULT_PORTS and guard.is_listed(parts.hostname or "", find_port(parts))


def make_seal_keys(settings: Settings) -> seal_keys.SealKeys:
    """Return the keys for internal values."""
    return seal_keys.make_seal_keys(seal_references(settings), make_secrets_of_operator())


def seal_references(settings: Settings) -> tuple[str, ...]:
    """Return the references to the seal keys."""
    folder = secrets_folder(settings)
    return tuple(make_reference_absolute(one, folder) for one in settings.memory.seal_keys)


def secrets_folder(settings: Settings) -> Path:
    """Return the folder for secrets."""
    return (settings.secrets.folder or settings.memory.root / "secrets").absolute()


def make_reference_absolute(reference: str, folder: Path) -> str:
    """Return a reference with an absolute file. A relative one lies in `folder`; `~` is a home."""
    kind, _, name = reference.partition(":")
    if kind != "file":
        return reference
    with suppress(RuntimeError):  # the user after ~ is unknown, so there is no such file
        name = str(Path(name).expanduser())
    return f"file:{folder / name}"


def make_secrets_of_operator() -> SecretResolver:
    """Return a resolver of references in the settings, which may name a file in any folder."""
    return SecretResolver(Path("/"), process_environment())


def bus_address(settings: Settings) -> Address:
    """Return the address of the configured server, or of the embedded one that runs.

    Raises NoBus: if none is configured and none runs.
    """
    if settings.bus.url:
        bus, server = settings.bus, parse(settings.bus.url)
        use_cells(bus.cells if server.nodes else 0)
        return replace(
            server,
            ca=str(bus.ca or ""),
            certificate=str(bus.certificate or ""),
            key=str(bus.key or ""),
            min_replicas=bus.min_replicas,
        )
    address = find_address(settings.bus.data)
    if address is None:
        raise NoBus(settings.bus.data)
    return address


def bus_name(settings: Settings) -> str:
    """Return the address of the bus for display, without a password."""
    return settings.bus.url.rpartition("@")[2] or str(
        find_socket(settings.bus.data) or settings.bus.data
    )


def bus_password_file(settings: Settings) -> str:
    """Return the file with the password of the embedded server, "" if another one is configured."""
    return "" if settings.bus.url else str(settings.bus.data.absolute() / PASSWORD_NAME)


def make_local_url(settings: Settings) -> str:
    """Return the address of the web server on this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.web.host, settings.web.host)
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}:{settings.web.port}{settings.web.base_path}"


def open_catalog(settings: Settings) -> Catalog:
    """Return the existing catalog. End the command if nothing was ever stored.

    Opening a missing catalog would create one, also in a mistyped memory root.
    """
    if not catalog_exists(settings.memory.root, settings.storage.url):
        fail(
            f"nothing is stored in {settings.memory.root}; correct memory.root, or start here with "
            "`memrelay deploy FILE`"
        )
    return make_catalog(settings)


def make_catalog(settings: Settings) -> Catalog:
    """Return the catalog. Opening it creates it."""
    return Catalog(settings.memory.root, settings.storage.url)


async def find_pipeline(catalog: Catalog, uid_or_name: str) -> Deployed:
    """Return an active pipeline. End the command if none or several have this uid or name."""
    deployed = await catalog.find(uid_or_name)
    if deployed is None:
        active = await catalog.active()
        same_name = [one.uid for one in active if one.name == uid_or_name]
        if same_name:
            fail(
                f"{len(same_name)} pipelines are named {uid_or_name!r}; use a uid: "
                f"{_join_names(same_name)}"
            )
        names = _join_names([f"{one.name} ({one.uid})" for one in active]) or "none"
        fail(
            f"no pipeline {uid_or_name[:100]!r}; active pipelines: {names}. Deploy one with "
            "`memrelay deploy FILE`"
        )
    return deployed


async def find_uid(settings: Settings, uid_or_name: str) -> str:
    """Return the uid of an active pipeline. End the command if none or several have this name."""
    async with open_catalog(settings) as catalog:
        return (await find_pipeline(catalog, uid_or_name)).uid


def _join_names(names: list[str]) -> str:
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (
        f" and {more} more; list them with `memrelay ls`" if more > 0 else ""
    )

"""`memrelay doctor`: find problems of the installation and show how to fix them."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import typer

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusError, BusRefused
from memrelay.cli.composition import NoBus, bus_address
from memrelay.cli.doctor import (
    BusCheck,
    Check,
    DoctorContext,
    Finding,
    callers,
    fault,
    file_systems,
    folders,
    ok,
    server,
    service,
)
from memrelay.cli.options import Json
from memrelay.cli.settings import (
    Settings,
    SettingsError,
    default_config_file,
    load_settings,
    may_color,
)
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import counted

COLORS = {"ok": typer.colors.GREEN, "warning": typer.colors.YELLOW, "fault": typer.colors.RED}
LOCAL_CHECKS: tuple[Check, ...] = (
    folders.check_folders,
    file_systems.check_file_system,
    folders.check_sqlite,
    folders.check_handles,
    service.check_catalog,
    service.check_stores,
    service.check_copies,
    service.check_dead_letters,
    callers.check_issuers,
    callers.check_seal_keys,
    callers.check_block_secrets,
    callers.check_outgoing,
    callers.check_embedding_key,
    callers.check_webhook_secrets,
)
BUS_CHECKS: tuple[BusCheck, ...] = (
    server.check_version,
    server.check_password,
    server.check_permissions,
    server.check_writes,
    server.check_durability,
    server.check_eviction,
    server.check_memory,
    server.check_limits,
    server.check_idle,
    server.check_clock,
    server.check_replicas,
    server.check_watchers,
    service.check_keys,
    service.check_workers,
    service.check_paused,
    service.check_erasures,
    service.check_endpoints,
    service.check_listeners,
)
BUS_TIMEOUT_S = 5.0


def doctor(*, as_json: Json = False) -> None:
    """Find problems of the installation and show how to fix them.

    The exit code is 1 if there is a fault.
    """
    settings, findings = _check_settings()
    if settings is not None:
        findings += asyncio.run(_check_all(settings))
    if as_json:
        for finding in findings:
            print_json(finding._asdict())
    else:
        _print(findings)
    if any(finding.level == "fault" for finding in findings):
        raise typer.Exit(1)


def _check_settings() -> tuple[Settings | None, list[Finding]]:
    """Return the settings, or None if they are invalid, with the findings about them."""
    file = default_config_file()
    source = file.absolute() if file else "the defaults"
    try:
        return load_settings(), [ok("settings", f"{source}, and the environment")]
    except SettingsError as error:
        remedy = "correct it; config.yaml lists every setting with its default"
        return None, [fault("settings", text, remedy) for text in error.faults]


async def _check_all(settings: Settings) -> list[Finding]:
    findings = [finding for check in LOCAL_CHECKS for finding in await check(settings)]
    return findings + await _check_bus(settings)


async def _check_bus(settings: Settings) -> list[Finding]:
    findings: list[Finding] = []
    try:
        address = bus_address(settings)
        async with ReconnectingConnection(address) as connection, asyncio.timeout(BUS_TIMEOUT_S):
            await connection.call("PING")
            findings.append(ok("bus", f"{address} answers"))
            for check in BUS_CHECKS:
                findings += await check(DoctorContext(settings, connection))
    except NoBus as error:
        remedy = "start one with `memrelay up`, or set bus.url"
        findings.append(fault("bus", f"no bus runs (looked in {error.data})", remedy))
    except BusRefused as error:
        findings.append(fault("bus", f"{address} refuses: {error}", server.remedy_for(error)))
    except (BusError, TimeoutError) as error:
        start = "start that server" if settings.bus.url else "start it with `memrelay up`"
        text = str(error) or f"{address} does not answer within {BUS_TIMEOUT_S:g} s"
        findings.append(fault("bus", text, f"{start}, or correct bus.url"))
    return findings


def _print(findings: Sequence[Finding]) -> None:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        level = f"{finding.level:7}  "
        level = typer.style(level, COLORS[finding.level]) if may_color() else level
        print_line(f"{finding.check:{width}}  {finding.text}", before=level)
        if finding.remedy:
            print_line(f"{'':7}  {'':{width}}  -> {finding.remedy}")
    levels = Counter(finding.level for finding in findings)
    print_line(f"{counted(levels['fault'], 'fault')}, {counted(levels['warning'], 'warning')}")

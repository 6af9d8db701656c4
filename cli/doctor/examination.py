"""The examination: every check in turn; those of the bus only where it answers."""

import asyncio

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusError, BusRefused
from memrelay.cli.composition import NoBus, bus_address
from memrelay.cli.doctor.finding import BusCheck, Check, DoctorContext, Finding, fault, ok
from memrelay.cli.doctor.folders import check_folders, check_handles, check_sqlite
from memrelay.cli.doctor.keys import check_keys
from memrelay.cli.doctor.server import (
    check_clock,
    check_durability,
    check_eviction,
    check_idle,
    check_limits,
    check_rights,
    check_room,
    check_version,
    check_writes,
    remedy_for,
)
from memrelay.cli.doctor.service import (
    check_catalogue,
    check_letters,
    check_listeners,
    check_paused,
    check_stores,
    check_workers,
)
from memrelay.cli.settings import Settings, SettingsError, default_config_file, load_settings

HERE: tuple[Check, ...] = (
    check_folders,
    check_sqlite,
    check_handles,
    check_catalogue,
    check_stores,
    check_letters,
)
ON_THE_BUS: tuple[BusCheck, ...] = (
    check_version,
    check_rights,
    check_writes,
    check_durability,
    check_eviction,
    check_room,
    check_limits,
    check_idle,
    check_clock,
    check_keys,
    check_workers,
    check_paused,
    check_listeners,
)
ANSWERS_WITHIN_S = 5.0


def read_settings() -> tuple[Settings | None, list[Finding]]:
    """The settings, without which there is nothing to look at."""
    file = default_config_file()
    source = file.absolute() if file else "the defaults"
    try:
        return load_settings(), [ok("settings", f"{source}, and the environment")]
    except SettingsError as error:
        remedy = "correct it; config.yaml lists every setting with its default"
        return None, [fault("settings", text, remedy) for text in error.faults]


async def examine(settings: Settings) -> list[Finding]:
    """All findings but those on the settings."""
    found = [finding for check in HERE for finding in await check(settings)]
    return found + await _examine_bus(settings)


async def _examine_bus(settings: Settings) -> list[Finding]:
    found: list[Finding] = []
    try:
        address = bus_address(settings)
        async with ReconnectingConnection(address) as line, asyncio.timeout(ANSWERS_WITHIN_S):
            await line.call("PING")
            found.append(ok("bus", f"{address} answers"))
            for check in ON_THE_BUS:
                found += await check(DoctorContext(settings, line))
    except NoBus as error:
        remedy = "start one with `memrelay up`, or name one in bus.url"
        found.append(fault("bus", f"no bus runs (looked in {error.data})", remedy))
    except BusRefused as error:
        found.append(fault("bus", f"{address} refuses: {error}", remedy_for(error)))
    except (BusError, TimeoutError) as error:
        remedy = f"start {'that server' if settings.bus.url else 'it with `memrelay up`'}, or correct bus.url"
        found.append(
            fault(
                "bus",
                str(error) or f"{address} does not answer within {ANSWERS_WITHIN_S:g} s",
                remedy,
            )
        )
    return found

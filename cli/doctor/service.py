"""What is in service and who serves it."""

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from memrelay.bus.errors import BusRefused
from memrelay.bus.lease.workers import pauses_of, read_workers
from memrelay.bus.public_listeners import all_members
from memrelay.cli.doctor.finding import (
    DoctorContext,
    Finding,
    fault,
    ok,
    some_of,
    unknown_finding,
    warning,
)
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.readable import counted
from memrelay.memory.control.catalog import Catalog, Deployed
from memrelay.memory.control.system_file import LOST, NAME
from memrelay.memory.errors import MemoryFault, StoreBusy
from memrelay.memory.memory_id import stores_below

MOST_PAUSED = 20  # that are told, each with its reason
DEPLOY = "put one in service with `memrelay deploy FILE`"


async def check_catalogue(settings: Settings) -> list[Finding]:
    """The file in which bundles are kept."""
    file = settings.memory.root / "system.db"
    if not os.path.exists(file):  # unlike Path.exists, False where it may not be looked at
        return [warning("catalogue", f"{file} is not there: no pipeline is in service", DEPLOY)]
    try:
        deployed = await deployed_in(settings)
    except StoreBusy as error:
        return [
            fault("catalogue", str(error), "make room, or end the program that keeps it locked")
        ]
    except (MemoryFault, sqlite3.Error) as error:
        return [
            fault(
                "catalogue",
                str(error),
                f"put back {file} from a copy, or move it away and deploy again",
            )
        ]
    if not deployed:
        return [warning("catalogue", f"{file} has no pipeline in service", DEPLOY)]
    return [ok("catalogue", f"{file} has {counted(len(deployed), 'pipeline')} in service")]


async def check_stores(settings: Settings) -> list[Finding]:
    """Of pipelines that were never in service here, as where the catalogue was lost, and made anew
    at the next start."""
    root = settings.memory.root
    try:
        uids = {name.split("/")[1] for name in stores_below(root, "instances")}
        async with catalogue_of(settings) as catalog:
            unknown = [
                uid for uid in sorted(uids) if catalog is None or not await catalog.versions(uid)
            ]
    except (OSError, MemoryFault, sqlite3.Error):
        return []  # told above
    if not unknown:
        return []
    return [
        warning(
            "stores",
            f"{root / NAME} does not know whose the stores of {some_of(unknown)} are",
            LOST,
        )
    ]


async def check_letters(settings: Settings) -> list[Finding]:
    """What could not be run and waits for somebody to look at it."""
    try:
        counts = await _dead(settings)
    except (MemoryFault, sqlite3.Error):
        return []  # told above
    if not counts:
        return [ok("dead letters", "there are none")]
    waiting = some_of([f"{uid} has {count}" for uid, count in counts.items()])
    return [
        warning(
            "dead letters",
            f"{counted(sum(counts.values()), 'message')} could not be run: {waiting}",
            "`memrelay dlq ls` says why; mend it, then `memrelay dlq replay PIPELINE --all`, or drop them",
        )
    ]


async def check_workers(patient: DoctorContext) -> list[Finding]:
    """Who has called in during the last seconds, and which pipelines nobody serves."""
    try:
        workers = await read_workers(patient.line)
    except BusRefused:
        return [unknown_finding("workers", "who serves it", "ZRANGE and MGET")]
    if not workers:
        return [
            warning(
                "workers",
                "no worker serves this bus: what is said waits",
                "start one with `memrelay worker`",
            )
        ]
    served = {uid for worker in workers for uid in worker["pipelines"]}
    try:
        unserved = [one for one in await deployed_in(patient.settings) if one.uid not in served]
    except (MemoryFault, sqlite3.Error):
        unserved = []  # told above
    if left := [one.name for one in unserved]:
        return [
            warning(
                "workers",
                f"nobody serves {some_of(left)}",
                "look into the worker's log; `memrelay status` lists who serves what",
            )
        ]
    return [
        ok("workers", f"{counted(len(workers), 'worker')} with {counted(len(served), 'pipeline')}")
    ]


async def check_paused(patient: DoctorContext) -> list[Finding]:
    """Pipelines that are owned and do not run: their input waits. Each with its worker's reason."""
    try:
        paused = pauses_of(await read_workers(patient.line))
    except BusRefused:
        return []  # as told above
    return [
        fault(
            "paused",
            f"pipeline {uid} is paused: {reason}",
            "mend what it names; what passes by itself, a lock or a full disk, is tried again every 5 seconds",
        )
        for uid, reason in sorted(paused.items())[:MOST_PAUSED]
    ]


async def check_listeners(patient: DoctorContext) -> list[Finding]:
    """Pipelines that listen to public swarms though nobody serves them: what is said there collects
    in their inputs."""
    try:
        listening = {member.uid for member in await all_members(patient.line) if member.listens}
        served = (
            {uid for worker in await read_workers(patient.line) for uid in worker["pipelines"]}
            if listening
            else set()
        )
    except BusRefused:
        return []  # as told above
    if left := sorted(listening - served):
        return [
            warning(
                "public swarms",
                f"nobody serves {some_of(left)}, and what is said in public collects in the input of each",
                "start their workers, or take out of service what is not needed any more (`memrelay rm`)",
            )
        ]
    return (
        [ok("public swarms", f"{counted(len(listening), 'pipeline')} listening")]
        if listening
        else []
    )


async def deployed_in(settings: Settings) -> list[Deployed]:
    """What is in service."""
    async with catalogue_of(settings) as catalog:
        return await catalog.active() if catalog is not None else []


@asynccontextmanager
async def catalogue_of(settings: Settings) -> AsyncIterator[Catalog | None]:
    """The catalogue; None where there is none, since to open it would make it."""
    if not os.path.exists(settings.memory.root / "system.db"):
        yield None
        return
    async with Catalog(settings.memory.root) as catalog:
        yield catalog


async def _dead(settings: Settings) -> dict[str, int]:
    async with catalogue_of(settings) as catalog:
        return await catalog.letters.count() if catalog is not None else {}

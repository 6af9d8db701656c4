"""Checks of the pipelines: catalog, stores, workers, dead letters, and their keys on the bus."""

import os
import sqlite3
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusRefused
from memrelay.bus.key_types import all_keys, shared_keys, wrong_type_keys
from memrelay.bus.keys import PUBLIC, swarm_key
from memrelay.bus.lease.workers import pause_reasons, read_workers
from memrelay.bus.public_listeners import list_members
from memrelay.cli.composition import make_catalog
from memrelay.cli.doctor import (
    MAX_LISTED,
    DoctorContext,
    Finding,
    fault,
    join_names,
    ok,
    unknown,
    warning,
)
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.readable import counted
from memrelay.memory.control.catalog import Catalog, Deployed, catalog_exists
from memrelay.memory.control.system_file import LOST, NAME
from memrelay.memory.engine.memory_id import list_stores
from memrelay.memory.errors import MemoryFault, StoreBusy

# Errors of the database of the bundles, which check_catalog reports.
CATALOG_FAULTS = (MemoryFault, sqlite3.Error)
# Paused pipelines that are listed, each with its reason.
MAX_PAUSED = 20
# Endpoints in trouble that are listed.
MAX_ENDPOINTS = 20
DEPLOY = "deploy one with `memrelay deploy FILE`"


async def check_catalog(settings: Settings) -> list[Finding]:
    """Check the database of the bundles: system.db or PostgreSQL."""
    url = settings.storage.url
    file: object = "PostgreSQL (storage.url)" if url else settings.memory.root / "system.db"
    # Unlike Path.exists, os.path.exists is False without permission to look.
    if not url and not os.path.exists(settings.memory.root / "system.db"):
        return [warning("catalog", f"{file} does not exist: no pipeline is active", DEPLOY)]
    try:
        deployed = await find_deployed(settings)
    except StoreBusy as error:
        remedy = "free disk space, or end the program that locks the file"
        if url:
            remedy = "start PostgreSQL, or correct storage.url, its user and password"
        return [fault("catalog", str(error), remedy)]
    except CATALOG_FAULTS as error:
        remedy = f"restore {file} from a copy, or move it away and deploy again"
        if url:
            remedy = "correct storage.url, or install the extra `postgres`"
        return [fault("catalog", str(error), remedy)]
    if not deployed:
        return [warning("catalog", f"{file} has no active pipeline", DEPLOY)]
    return [ok("catalog", f"{file} has {counted(len(deployed), 'active pipeline')}")]


async def check_stores(settings: Settings) -> list[Finding]:
    """Find stores of pipelines that the catalog does not know, as after the loss of system.db."""
    root = settings.memory.root
    try:
        uids = {name.split("/")[1] for name in list_stores(root, "instances")}
        async with open_existing_catalog(settings) as catalog:
            strays = [
                uid for uid in sorted(uids) if catalog is None or not await catalog.versions(uid)
            ]
    except (OSError, *CATALOG_FAULTS):
        return []
    if not strays:
        return []
    text = f"{root / NAME} does not know the pipelines of the stores of {join_names(strays)}"
    return [warning("stores", text, LOST)]


async def check_copies(settings: Settings) -> list[Finding]:
    """Find copies of stores that had commits which PostgreSQL has lost."""
    kept = sorted(settings.memory.root.glob("instances/**/*.diverged-*[0-9]"))
    if not kept:
        return []
    text = f"PostgreSQL lost commits of these stores: {join_names([str(file) for file in kept])}"
    remedy = (
        "compare each file with the store and import what is missing (docs/operations.md, "
        "PostgreSQL), then delete the file"
    )
    return [warning("stores", text, remedy)]


async def check_dead_letters(settings: Settings) -> list[Finding]:
    """Count the dead letters."""
    try:
        async with open_existing_catalog(settings) as catalog:
            counts = await catalog.dead_letters.count() if catalog is not None else {}
    except CATALOG_FAULTS:
        return []
    if not counts:
        return [ok("dead letters", "none")]
    pipelines = join_names([f"{uid} has {count}" for uid, count in counts.items()])
    return [
        warning(
            "dead letters",
            f"{counted(sum(counts.values()), 'message')} failed permanently: {pipelines}",
            "`memrelay dlq ls` shows the reasons; fix them, then run `memrelay dlq replay PIPELINE "
            "--all`, or drop the dead letters",
        )
    ]


async def check_workers(context: DoctorContext) -> list[Finding]:
    """Check that a worker serves each pipeline, by the heartbeats of the last seconds."""
    try:
        workers = await read_workers(context.connection)
    except BusRefused:
        return [unknown("workers", "the workers", "ZRANGE and MGET")]
    if not workers:
        text = "no worker serves this bus: messages wait"
        return [warning("workers", text, "start one with `memrelay worker`")]
    served = {uid for worker in workers for uid in worker["pipelines"]}
    deployed = list[Deployed]()
    with suppress(*CATALOG_FAULTS):
        deployed = await find_deployed(context.settings)
    if unserved := [one.name for one in deployed if one.uid not in served]:
        text = f"no worker serves {join_names(unserved)}"
        remedy = "see the log of the worker; `memrelay status` lists the owners"
        return [warning("workers", text, remedy)]
    text = f"{counted(len(workers), 'worker')} with {counted(len(served), 'pipeline')}"
    return [ok("workers", text)]


async def check_paused(context: DoctorContext) -> list[Finding]:
    """List paused pipelines with the reasons that their workers report. Their input waits."""
    paused = pause_reasons(await _list_workers(context))
    remedy = "fix the reason; the worker retries after a lock or a full disk every 5 seconds"
    return [
        fault("paused", f"pipeline {uid} is paused: {reason}", remedy)
        for uid, reason in sorted(paused.items())[:MAX_PAUSED]
    ]


async def check_erasures(context: DoctorContext) -> list[Finding]:
    """List pipelines whose erased data is still in files, with the reasons."""
    faults = {
        uid: report["erasure_fault"]
        for worker in await _list_workers(context)
        for uid, report in worker["pipelines"].items()
        if report.get("erasure_fault")
    }
    remedy = "fix the reason; the worker retries within 5 minutes, and at once after a restart"
    return [
        fault("erasures", f"pipeline {uid} cannot complete an erasure: {reason}", remedy)
        for uid, reason in sorted(faults.items())[:MAX_PAUSED]
    ]


async def check_endpoints(context: DoctorContext) -> list[Finding]:
    """List endpoints that are failing or switched off, as the owners of their pipelines report."""
    reports = [
        (uid, report["deliveries"])
        for worker in await _list_workers(context)
        for uid, report in worker["pipelines"].items()
        if report.get("deliveries")
    ]
    findings = [_describe_endpoint(uid, one) for uid, found in reports for one in found["trouble"]]
    if reports and not findings:
        count = sum(found["endpoints"] for _, found in reports)
        return [ok("endpoints", f"{counted(count, 'endpoint')}, none failing")]
    return findings[:MAX_ENDPOINTS]


def _describe_endpoint(uid: str, one: dict[str, Any]) -> Finding:
    text = f"pipeline {uid}, {one['url']} ({one['id']})"
    if one["failing_since"]:
        text += f": no success since {one['failing_since']}"
    if one["last_answer"]:
        text += f"; the last answer: {one['last_answer']}"
    enable = f"`memrelay endpoints enable {uid} {one['id']}`"
    if one["is_paused"]:
        return warning("endpoints", f"{text} is switched off, and its deliveries wait", enable)
    if one["disabled"]:
        text += f"; it is switched off: {one['disabled']}"
        return fault("endpoints", text, f"correct the receiver, then run {enable}")
    remedy = f"correct the receiver; {enable} then sends at once what waits for its next try"
    return warning("endpoints", text, remedy)


async def _list_workers(context: DoctorContext) -> list[dict[str, Any]]:
    """Return the workers; none if the server refuses that, which check_workers reports."""
    try:
        return await read_workers(context.connection)
    except BusRefused:
        return []


async def check_listeners(context: DoctorContext) -> list[Finding]:
    """Find pipelines that listen to public swarms without a worker: their inputs grow."""
    try:
        members = await list_members(context.connection)
        listening = {member.uid for member in members if member.listens}
        workers = await read_workers(context.connection) if listening else []
    except BusRefused:
        # check_workers reports it.
        return []
    unserved = sorted(listening - {uid for worker in workers for uid in worker["pipelines"]})
    if unserved:
        text = (
            f"no worker serves {join_names(unserved)}, and messages of public swarms collect in "
            "the inputs"
        )
        remedy = "start their workers, or remove unused pipelines with `memrelay rm`"
        return [warning("public swarms", text, remedy)]
    if not listening:
        return []
    return [ok("public swarms", f"{counted(len(listening), 'pipeline')} listening")]


async def check_keys(context: DoctorContext) -> list[Finding]:
    """Find keys of Memrelay with a wrong type, or with an expiry."""
    types = shared_keys()
    with suppress(*CATALOG_FAULTS):
        types |= await _key_types(context.settings)
    try:
        wrong = await wrong_type_keys(context.connection, types)
        expiring = await _expiring_keys(context.connection, types)
    except BusRefused:
        # check_permissions reports it.
        return []
    findings = [fault("keys", str(one), one.remedy) for one in wrong[:MAX_LISTED]]
    findings += [
        fault(
            "keys",
            f"{key} expires in {left_s} s, and its contents are then lost",
            f"PERSIST {key}, and find the client that set the expiry",
        )
        for key, left_s in expiring[:MAX_LISTED]
    ]
    return findings or [ok("keys", "all keys have the right type and no expiry")]


async def _key_types(settings: Settings) -> dict[str, str]:
    """Return key and type for the active pipelines and the logs of their swarms.

    Compiling all bundles for the names of the swarms would take too long.
    """
    types: dict[str, str] = {}
    async with open_existing_catalog(settings) as catalog:
        if catalog is None:
            return types
        for one in await catalog.active():
            logs = _log_keys(one.uid, await catalog.source(one.hash) or b"{}")
            types |= all_keys(one.uid) | dict.fromkeys(logs, "stream")
    return types


def _log_keys(uid: str, source: bytes) -> Iterator[str]:
    bundle: dict[str, Any] = orjson.loads(source.replace(b"${pipeline_uid}", uid.encode()))
    public = {
        swarm["name"] for swarm in bundle.get("swarms") or () if swarm.get("visibility") == "public"
    }
    for agent in bundle.get("agents") or ():
        for swarm in filter(None, (agent.get("agent_rec_swarm"), agent.get("agent_send_swarm"))):
            yield swarm_key(PUBLIC if swarm in public else uid, swarm)


async def _expiring_keys(
    connection: ReconnectingConnection, keys: Collection[str]
) -> list[tuple[str, int]]:
    """Return (key, seconds left) of the keys with an expiry, if the server reports it."""
    try:
        left_ms = await connection.call_all([("PTTL", key) for key in keys])
    except BusRefused:
        return []
    return [(key, ms // 1000) for key, ms in zip(keys, left_ms, strict=True) if ms >= 0]


async def find_deployed(settings: Settings) -> list[Deployed]:
    async with open_existing_catalog(settings) as catalog:
        return await catalog.active() if catalog is not None else []


@asynccontextmanager
async def open_existing_catalog(settings: Settings) -> AsyncIterator[Catalog | None]:
    """Open the catalog, or yield None if there is none. Opening a missing one would create it."""
    if not catalog_exists(settings.memory.root, settings.storage.url):
        yield None
        return
    async with make_catalog(settings) as catalog:
        yield catalog

"""The keys on the bus: of another type than they should have, or with an end that somebody has
set."""

import sqlite3
from collections.abc import Collection, Iterator
from typing import Any

import orjson

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusRefused
from memrelay.bus.key_types import SHARED, all_keys, wrong_type_keys
from memrelay.bus.keys import PUBLIC, swarm_key
from memrelay.cli.doctor.finding import SOME, DoctorContext, Finding, fault, ok
from memrelay.cli.doctor.service import catalogue_of
from memrelay.cli.settings import Settings
from memrelay.memory.errors import MemoryFault


async def check_keys(patient: DoctorContext) -> list[Finding]:
    """Keys at which somebody has put another value, for which the server refuses every command; and
    those that will expire."""
    try:
        wanted = {**SHARED, **await _keys_of_all(patient.settings)}
    except (MemoryFault, sqlite3.Error):
        wanted = dict(SHARED)  # told by another check
    try:
        odd = await wrong_type_keys(patient.line, wanted)
        ending = await _ending(patient.line, wanted)
    except BusRefused:
        return []  # as told by another check
    found = [fault("keys", str(one), one.remedy) for one in odd[:SOME]]
    found += [
        fault(
            "keys",
            f"{key} expires in {left_s} s, and what it holds is lost then",
            f"PERSIST {key}, and find out what has set that",
        )
        for key, left_s in ending[:SOME]
    ]
    return found or [ok("keys", "each is what it should be")]


async def _keys_of_all(settings: Settings) -> dict[str, str]:
    """Of the pipelines in service, with their swarms' logs; to compile all bundles for these would
    take long."""
    keys: dict[str, str] = {}
    async with catalogue_of(settings) as catalog:
        if catalog is None:
            return keys
        for one in await catalog.active():
            logs = _logs(one.uid, await catalog.source(one.hash) or b"{}")
            keys |= all_keys(one.uid) | dict.fromkeys(logs, "stream")
    return keys


def _logs(uid: str, source: bytes) -> Iterator[str]:
    """As the bundle, which was checked when it was deployed, names its swarms."""
    bundle: dict[str, Any] = orjson.loads(source.replace(b"${pipeline_uid}", uid.encode()))
    public = {
        swarm["name"] for swarm in bundle.get("swarms") or () if swarm.get("visibility") == "public"
    }
    for agent in bundle.get("agents") or ():
        for swarm in filter(None, (agent.get("agent_rec_swarm"), agent.get("agent_send_swarm"))):
            yield swarm_key(PUBLIC if swarm in public else uid, swarm)


async def _ending(line: ReconnectingConnection, keys: Collection[str]) -> list[tuple[str, int]]:
    """Those that will expire, and in how many seconds; none where the server does not tell."""
    try:
        left_ms = await line.call_all([("PTTL", key) for key in keys])
    except BusRefused:
        return []
    return [(key, ms // 1000) for key, ms in zip(keys, left_ms, strict=True) if ms >= 0]

"""What runs: workers, pipelines with their lag and dead letters, and how durable the bus is."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusRefused
from memrelay.bus.keys import input_key, owner_key
from memrelay.bus.lease.workers import read_workers
from memrelay.bus.streams.log import cursor_of
from memrelay.memory.control.catalog import Catalog, Deployed

DURABILITIES = {
    ("yes", "always"): "what is acknowledged is on disk",
    (
        "yes",
        "everysec",
    ): "what is acknowledged may be lost for up to two seconds if the machine fails",
    ("yes", "no"): "what is acknowledged may be lost for as long as the system keeps it in memory",
}
# What an owner tells of a pipeline (worker/session.py), and what stands for it where there is none.
UNTOLD: dict[str, Any] = {
    "rate": 0.0,
    "in": 0,
    "done": 0,
    "dead": 0,
    "paused": "",
    "handler_s": 0.0,
    "duplicates": 0,
    "retried": 0,
    "waiting": 0,
    "pauses": 0,
    "wal_bytes": 0,
    "outbox_bytes": 0,
    "vectors_todo": 0,
    "vectors_fault": "",
}
EVICTS = "MAY BE EVICTED: the server takes what waits for a cache when its memory is full; set maxmemory-policy noeviction"
NOT_PERSISTENT = "NOT PERSISTENT: what waits on the bus is lost when the server ends; turn its append-only file on"


async def read_status(catalog: Catalog, line: ReconnectingConnection) -> dict[str, Any]:
    """{"durability", "workers", "pipelines"}. Raises BusUnavailable, BusRefused, StoreBusy."""
    deployed, workers = await catalog.active(), await read_workers(line)
    return {
        "durability": await _durability(line),
        "workers": [_worker(one) for one in workers],
        "pipelines": await _pipelines(deployed, workers, await catalog.letters.count(), line),
    }


def limited(status: dict[str, Any], sees: Callable[[str], bool]) -> dict[str, Any]:
    """A status for somebody who sees some pipelines only: of the others there is nothing, and
    nothing is counted."""
    workers = [
        worker | {"pipelines": [uid for uid in worker["pipelines"] if sees(uid)]}
        for worker in status["workers"]
    ]
    return {
        "durability": status["durability"],
        "workers": [worker for worker in workers if worker["pipelines"]],
        "pipelines": [one for one in status["pipelines"] if sees(one["pipeline_uid"])],
    }


def _worker(report: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": report["name"],
        "started_at": report["started_at"],
        "pipelines": list(report["pipelines"]),
        "silent_s": report["silent_s"],
        "loop_lag_ms": report.get("loop_lag_ms", 0.0),
        "groups_recreated": report.get("groups_recreated", 0),
    }


async def _durability(line: ReconnectingConnection) -> dict[str, str]:
    """The server's append-only file and eviction, as they are configured."""
    try:
        words: list[bytes] = await line.call(
            "CONFIG", "GET", "append*", "maxmemory", "maxmemory-policy"
        )
    except BusRefused as error:
        return {
            "appendonly": "unknown",
            "appendfsync": "unknown",
            "meaning": f"the server does not tell: {error}",
        }
    config = {
        name.decode(): value.decode() for name, value in zip(words[::2], words[1::2], strict=True)
    }
    enabled, sync = config.get("appendonly", "no"), config.get("appendfsync", "")
    evicts = config.get("maxmemory", "0") != "0" and config.get("maxmemory-policy", "").startswith(
        "allkeys"
    )
    meaning = EVICTS if evicts else DURABILITIES.get((enabled, sync), NOT_PERSISTENT)
    return {"appendonly": enabled, "appendfsync": sync, "meaning": meaning}


async def _pipelines(
    deployed: Sequence[Deployed],
    workers: Sequence[dict[str, Any]],
    dead: dict[str, int],
    line: ReconnectingConnection,
) -> list[dict[str, Any]]:
    """{"pipeline_uid", "name", "hash", "version", "owner", "lag", "oldest_s", "dead_letters", and
    what UNTOLD has} of each.

    Of these "retried" and "waiting" are inputs that were put off, and those that are now. Beside
    them "gaps", how often nobody
    listened to what is published, and "deaf_s", for how long in all.
    """
    owners = {
        uid: (report["name"], told)
        for report in workers
        for uid, told in report["pipelines"].items()
    }
    uids = [one.uid for one in deployed]
    lags, gaps = await _lags(uids, line), await _gaps(uids, line)
    found = []
    for one, (lag, oldest_s, refused), (gap_count, deaf_s) in zip(
        deployed, lags, gaps, strict=True
    ):
        owner, told = owners.get(
            one.uid, (None, UNTOLD | {"paused": refused and f"{input_key(one.uid)}: {refused}"})
        )
        found.append(
            {
                "pipeline_uid": one.uid,
                "name": one.name,
                "hash": one.hash,
                "version": one.version,
                "owner": owner,
                "lag": lag,
                "oldest_s": oldest_s,
                "dead_letters": dead.get(one.uid, 0),
                "gaps": gap_count,
                "deaf_s": deaf_s,
            }
            | {name: told.get(name, nothing) for name, nothing in UNTOLD.items()}
        )
    return found


async def _lags(uids: Sequence[str], line: ReconnectingConnection) -> list[tuple[int, float, str]]:
    """(messages that are not yet done, age of the oldest of them in s, why it cannot be told) of
    each pipeline's input."""
    now_ms = time.time_ns() // 1_000_000
    commands: list[tuple[str | int, ...]] = []
    for uid in uids:
        commands.append(("XLEN", input_key(uid)))
        commands.append(("XRANGE", input_key(uid), "-", "+", "COUNT", 1))
    replies = await line.call_all(commands, keep_refusals=True)
    return [
        _lag(length, first, now_ms)
        for length, first in zip(replies[::2], replies[1::2], strict=True)
    ]


def _lag(length: Any, first: Any, now_ms: int) -> tuple[int, float, str]:
    refusal = next((one for one in (length, first) if isinstance(one, BusRefused)), None)
    if refusal is not None:  # such as a key of another type
        return 0, 0.0, str(refusal)
    since_ms = now_ms - cursor_of(first[0][0].decode())[0] if first else 0
    return int(length), max(0.0, since_ms / 1000), ""


async def _gaps(uids: Sequence[str], line: ReconnectingConnection) -> list[tuple[int, float]]:
    """(how often nobody listened to the channels, for how long in s) of each pipeline."""
    commands = [("HMGET", owner_key(uid), "gaps", "deaf_ms") for uid in uids]
    return [_gap(reply) for reply in await line.call_all(commands, keep_refusals=True)]


def _gap(reply: Any) -> tuple[int, float]:
    if isinstance(reply, BusRefused):  # a key of another type
        return 0, 0.0
    try:
        return int(reply[0] or 0), int(reply[1] or 0) / 1000
    except ValueError:  # not a number
        return 0, 0.0

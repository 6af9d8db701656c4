"""The status of the system: workers, pipelines with lag and dead letters, and bus durability."""

import shutil
import time
from collections.abc import Callable, Sequence
from typing import Any

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusRefused
from memrelay.bus.info import read_server_figures
from memrelay.bus.keys import input_key, owner_key
from memrelay.bus.lease.workers import read_workers
from memrelay.memory.control.catalog import Catalog, Deployed
from memrelay.memory.transfer.backup_times import read_last_backup

# By the settings (appendonly, appendfsync).
DURABILITIES = {
    ("yes", "always"): "acknowledged data is on disk",
    ("yes", "everysec"): "up to two seconds of acknowledged data may be lost if the machine fails",
    ("yes", "no"): "acknowledged data may be lost until the operating system writes it to disk",
}
# The report of a pipeline's owner (worker/session.py), with the values of a pipeline without one.
OWNER_DEFAULTS: dict[str, Any] = {
    "rate": 0.0,
    "in": 0,
    "done": 0,
    "dead": 0,
    "paused": "",
    "handler_s": 0.0,
    "duplicates": 0,
    "changes": 0,
    "searches": 0,
    "retried": 0,
    "failed_sends": 0,
    "waiting": 0,
    "deferred_calls": 0,
    "pauses": 0,
    "store_bytes": 0,
    "wal_bytes": 0,
    "outbox_bytes": 0,
    "vectors_todo": 0,
    "vectors_fault": "",
    "erasure_pending": False,
    "erasure_fault": "",
}
# Only pipelines with endpoints have it.
DELIVERIES = "deliveries"
# Fields that have another name in the report on the bus.
REPORT_NAMES = {"deferred_calls": "errands"}
# Figures of a worker that only callers for all pipelines see.
OF_ALL_PIPELINES = ("malformed", "latency")
# Values above it are no figures of Memrelay, and JSON has no exact numbers for them.
LARGEST_COUNT = 2**53
EVICTS = (
    "MAY BE EVICTED: the server evicts waiting messages when its memory is full; "
    "set maxmemory-policy noeviction"
)
NOT_PERSISTENT = (
    "NOT PERSISTENT: waiting messages are lost when the server stops; enable its append-only file"
)


async def read_status(catalog: Catalog, line: ReconnectingConnection) -> dict[str, Any]:
    """Return {durability, storage, workers, pipelines}.

    Raises BusUnavailable, BusRefused, StoreBusy.
    """
    deployed, workers = await catalog.active(), await read_workers(line)
    return {
        "durability": await _read_durability(line),
        "storage": await _read_storage(catalog, line),
        "workers": [_describe_worker(one) for one in workers],
        "pipelines": await _describe_pipelines(
            deployed, workers, await catalog.dead_letters.count(), line
        ),
    }


def filter_status(status: dict[str, Any], sees: Callable[[str], bool]) -> dict[str, Any]:
    """Return the part of a status that concerns the pipelines that a caller may see.

    Figures about the whole host, or about all pipelines of a worker, are left out.
    """
    workers = [
        {name: value for name, value in worker.items() if name not in OF_ALL_PIPELINES}
        | {"pipelines": [uid for uid in worker["pipelines"] if sees(uid)]}
        for worker in status["workers"]
    ]
    return {
        "durability": status["durability"],
        "workers": [worker for worker in workers if worker["pipelines"]],
        "pipelines": [one for one in status["pipelines"] if sees(one["pipeline_uid"])],
    }


def _describe_worker(report: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": report["name"],
        "started_at": report.get("started_at", 0),
        "pipelines": list(report["pipelines"]),
        "silent_s": report["silent_s"],
        "loop_lag_ms": report.get("loop_lag_ms", 0.0),
        "groups_recreated": report.get("groups_recreated", 0),
        "malformed": report.get("malformed", 0),
        "latency": report.get("latency", {}),
    }


async def _read_storage(catalog: Catalog, line: ReconnectingConnection) -> dict[str, Any]:
    """Return what fills memory and disks. Figures of a server that refuses INFO are 0."""
    figures = await read_server_figures(line)
    used_memory, max_memory, aof_bytes, replicas = figures or (0, 0, 0, 0)
    return {
        "bus_memory_bytes": used_memory,
        "bus_max_memory_bytes": max_memory,
        "bus_aof_bytes": aof_bytes,
        "bus_replicas": replicas,
        "postgres_bytes": await catalog.measure(),
        "disk_free_bytes": shutil.disk_usage(catalog.root).free,
        "last_backup_at": read_last_backup(catalog.root),
    }


async def _read_durability(line: ReconnectingConnection) -> dict[str, str]:
    """Return the server's settings for its append-only file, with their meaning."""
    try:
        reply: list[bytes] = await line.call(
            "CONFIG", "GET", "append*", "maxmemory", "maxmemory-policy"
        )
    except BusRefused as error:
        return {
            "appendonly": "unknown",
            "appendfsync": "unknown",
            "meaning": f"unknown, because the server rejects CONFIG GET: {error}",
        }
    words = [word.decode() for word in reply]
    config = dict(zip(words[::2], words[1::2], strict=True))
    enabled, sync = config.get("appendonly", "no"), config.get("appendfsync", "")
    has_limit = config.get("maxmemory", "0") != "0"
    evicts = has_limit and config.get("maxmemory-policy", "").startswith("allkeys")
    meaning = EVICTS if evicts else DURABILITIES.get((enabled, sync), NOT_PERSISTENT)
    return {"appendonly": enabled, "appendfsync": sync, "meaning": meaning}


async def _describe_pipelines(
    deployed: Sequence[Deployed],
    workers: Sequence[dict[str, Any]],
    dead_letters: dict[str, int],
    line: ReconnectingConnection,
) -> list[dict[str, Any]]:
    """Return the status of each pipeline.

    "retried" counts inputs that were postponed, "waiting" those that are postponed now.
    "deferred_calls" counts requests of blocks that have no result yet. "gaps" counts the times when
    no worker listened to the channels, and "deaf_s" is their duration.
    """
    owners = {
        uid: (report["name"], figures)
        for report in workers
        for uid, figures in report["pipelines"].items()
    }
    uids = [one.uid for one in deployed]
    lags, ownerships = await _read_lags(uids, line), await _read_ownership(uids, line)
    found = []
    for one, (lag, oldest_s, refused), ownership in zip(deployed, lags, ownerships, strict=True):
        paused = f"{input_key(one.uid)}: {refused}" if refused else ""
        owner, figures = owners.get(one.uid, (None, OWNER_DEFAULTS | {"paused": paused}))
        row = {
            "pipeline_uid": one.uid,
            "name": one.name,
            "hash": one.hash,
            "version": one.version,
            "owner": owner,
            "lag": lag,
            "oldest_s": oldest_s,
            "dead_letters": dead_letters.get(one.uid, 0),
        }
        found.append(
            row
            | ownership
            | {
                name: figures.get(REPORT_NAMES.get(name, name), default)
                for name, default in OWNER_DEFAULTS.items()
            }
            | ({DELIVERIES: figures[DELIVERIES]} if DELIVERIES in figures else {})
        )
    return found


async def _read_lags(
    uids: Sequence[str], line: ReconnectingConnection
) -> list[tuple[int, float, str]]:
    """Return (unfinished messages, age of the oldest in s, error of the bus) for each pipeline."""
    now_ms = time.time_ns() // 1_000_000
    commands: list[tuple[str | int, ...]] = []
    for uid in uids:
        commands.append(("XLEN", input_key(uid)))
        commands.append(("XRANGE", input_key(uid), "-", "+", "COUNT", 1))
    replies = await line.call_all(commands, keep_refusals=True)
    return [
        _parse_lag(length, first, now_ms)
        for length, first in zip(replies[::2], replies[1::2], strict=True)
    ]


def _parse_lag(length: Any, first: Any, now_ms: int) -> tuple[int, float, str]:
    refusal = next((reply for reply in (length, first) if isinstance(reply, BusRefused)), None)
    if refusal is not None:
        # The key has a wrong type.
        return 0, 0.0, str(refusal)
    # A producer may have chosen an ID that is above every cursor.
    age_ms = now_ms - int(first[0][0].partition(b"-")[0]) if first else 0
    return int(length), max(0.0, age_ms / 1000), ""


async def _read_ownership(
    uids: Sequence[str], line: ReconnectingConnection
) -> list[dict[str, Any]]:
    """Return for each pipeline its gaps, their total duration, and its owner's epoch."""
    commands = [("HMGET", owner_key(uid), "gaps", "deaf_ms", "epoch") for uid in uids]
    return [_parse_owner(reply) for reply in await line.call_all(commands, keep_refusals=True)]


def _parse_owner(reply: Any) -> dict[str, Any]:
    try:
        # The key may have a wrong type, and its values may not be numbers.
        gaps, deaf_ms, epoch = [0] * 3 if isinstance(reply, BusRefused) else map(_number, reply)
    except ValueError:
        gaps = deaf_ms = epoch = 0
    return {"gaps": gaps, "deaf_s": deaf_ms / 1000, "epoch": epoch}


def _number(value: bytes | None) -> int:
    return min(int((value or b"0")[:20]), LARGEST_COUNT)

"""Reports of the live workers, sent with the heartbeats of their leases, and the server's clock."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
import orjson
from msgspec import Struct

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BadAddress
from memrelay.bus.keys import all_cells, cells_key, worker_key, workers_key
from memrelay.bus.malformed import MALFORMED

# Between two heartbeats of a worker.
HEARTBEAT_S = 2.0
# A worker without a heartbeat for this long is not listed.
SILENT_MS = 10_000
POLL_S = 0.05


async def read_server_time(client: ReconnectingConnection) -> int:
    """Return the server's Unix ms, which entry IDs use. Raises BusUnavailable and BusRefused."""
    seconds, micros = map(int, await client.call("TIME"))
    return seconds * 1000 + micros // 1000


async def fix_cells(client: ReconnectingConnection) -> None:
    """Fix the number of cells at the first use of a cluster.

    Raises BadAddress: the cluster was first used with another number. Raises BusUnavailable.
    """
    count, cell = len(all_cells()), client.cells[0]
    if not cell:
        return
    fixed = await client.call("SET", cells_key(cell), count, "NX", "GET")
    if fixed is not None and int(fixed) != count:
        raise BadAddress(
            f"bus.cells is {count}, and this cluster was first used with {int(fixed)}; set "
            f"bus.cells to {int(fixed)}"
        )


async def read_workers(client: ReconnectingConnection) -> list[dict[str, Any]]:
    """Return the last report of each live worker, sorted by name.

    Each has its `lease` and its age in seconds (`silent_s`). Malformed reports are left out. A
    worker of several cells has one report with all pipelines. Raises BusUnavailable and BusRefused.
    """
    now_ms = await read_server_time(client)
    found = [one for cell in client.cells for one in await _read_cell(client, cell, now_ms)]
    if len(client.cells) > 1:
        found = _join_cells(found)
    return sorted(found, key=lambda report: str(report["name"]))


def _join_cells(reports: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one report for each process, with its pipelines of all cells."""
    joined: dict[tuple[str, int], dict[str, Any]] = {}
    for report in reports:
        process = str(report["name"]), report.get("started_at", 0)
        joined.setdefault(process, report)["pipelines"] |= report["pipelines"]
    return list(joined.values())


async def _read_cell(
    client: ReconnectingConnection, cell: str, now_ms: int
) -> list[dict[str, Any]]:
    listed: list[bytes] = await client.call(
        "ZRANGEBYSCORE", workers_key(cell), now_ms - SILENT_MS, "+inf", "WITHSCORES"
    )
    if not listed:
        return []
    names = [name.decode(errors="replace") for name in listed[::2]]
    leases = await client.call("MGET", *map(worker_key, names))
    return [
        report | {"lease": name, "silent_s": max(0.0, (now_ms - float(at_ms)) / 1000)}
        for name, at_ms, lease in zip(names, listed[1::2], leases, strict=True)
        if lease and (report := _parse_report(lease)) is not None
    ]


class _Latency(Struct):
    bounds_s: list[float]
    counts: list[int]
    sum_s: float


class _Trouble(Struct):
    id: str
    url: str
    disabled: str
    is_paused: bool
    failing_since: str | None
    last_answer: str


class _Deliveries(Struct):
    endpoints: int
    waiting: int
    failed: int
    failing: int
    off: int
    tries: int
    delivered: int
    duration: _Latency
    trouble: list[_Trouble]


class _Pipeline(Struct):
    deliveries: _Deliveries | None = None


class _Report(Struct):
    """The types of the fields that are not numbers."""

    name: str
    pipelines: dict[str, _Pipeline]
    storage: str = ""
    started_at: int = 0
    latency: dict[str, _Latency] = {}


_check_report = msgspec.json.Decoder(_Report).decode


def _parse_report(lease: bytes) -> dict[str, Any] | None:
    try:
        _check_report(lease)
        report: dict[str, Any] = orjson.loads(lease)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        MALFORMED.drop("worker_report", error)
        return None
    return report


def pause_reasons(workers: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return, by uid, why a worker owns a pipeline without running it."""
    return {
        uid: str(report["paused"])
        for worker in workers
        for uid, report in worker["pipelines"].items()
        if report.get("paused")
    }


async def wait_until_served(
    client: ReconnectingConnection, uid: str, bundle_hash: str, within_s: float
) -> bool:
    """Wait until a worker reports that it serves a pipeline with this bundle.

    Return False after `within_s`, and at once if no worker lives. Raises BusUnavailable and
    BusRefused.
    """
    deadline = time.monotonic() + within_s
    while reports := await read_workers(client):
        if any(report["pipelines"].get(uid, {}).get("hash") == bundle_hash for report in reports):
            return True
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(POLL_S)
    return False


class BusClock:
    """The server's clock, carried on by `monotonic` (seconds) between two readings.

    The machine's own clock may be wrong or be set, so only the time before the first reading
    depends on it.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._offset_ms = time.time_ns() / 1_000_000 - self._now()
        self._was_read = False

    @property
    def now_ms(self) -> int:
        return int(self._monotonic() * 1000 + self._offset_ms)

    async def look(self, read: Callable[[], Awaitable[int]]) -> None:
        """Adjust to what `read` returns, the server's Unix ms. Raises what it raises."""
        began_ms = self._now()
        self.adjust(await read(), began_ms)

    def adjust(self, server_ms: int, began_ms: float) -> None:
        """Adjust to a reading that was requested at `began_ms`.

        The server read its clock at some moment since then. An offset that fits is kept.
        """
        least, most = server_ms - self._now(), server_ms + 1 - began_ms
        self._offset_ms = (
            min(max(self._offset_ms, least), most) if self._was_read else (least + most) / 2
        )
        self._was_read = True

    def _now(self) -> float:
        return self._monotonic() * 1000

"""The roll of workers: what each said of itself in the last seconds. They call in through their
leases (bus/lease/lease.py)."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from memrelay.bus.client.connection import Connection
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.keys import ROLL, worker_key

BEAT_S = 2.0  # between two calls of a worker
SILENT_MS = 10_000  # after which it is left out
LOOK_AGAIN_S = 0.05


async def server_time(line: ReconnectingConnection | Connection) -> int:
    """Unix ms, by the clock that gives entries their ids. Raises BusUnavailable or BusRefused."""
    seconds, micros = map(int, await line.call("TIME"))
    return seconds * 1000 + micros // 1000


async def read_workers(line: ReconnectingConnection | Connection) -> list[dict[str, Any]]:
    """What the workers that live have said last, by name, each with its `lease`, and the seconds
    since (`silent_s`).

    Raises BusUnavailable or BusRefused.
    """
    now_ms = await server_time(line)
    heard: list[bytes] = await line.call(
        "ZRANGEBYSCORE", ROLL, now_ms - SILENT_MS, "+inf", "WITHSCORES"
    )
    if not heard:
        return []
    names = [name.decode() for name in heard[::2]]
    told = await line.call("MGET", *map(worker_key, names))
    reports = [
        orjson.loads(words) | {"lease": name, "silent_s": max(0.0, (now_ms - float(at_ms)) / 1000)}
        for name, at_ms, words in zip(names, heard[1::2], told, strict=True)
        if words
    ]
    return sorted(reports, key=lambda report: str(report["name"]))


def pauses_of(workers: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Of what the workers said, by pipeline: why it is owned and does not run."""
    return {
        uid: str(told["paused"])
        for worker in workers
        for uid, told in worker["pipelines"].items()
        if told.get("paused")
    }


async def wait_until_served(
    line: ReconnectingConnection, uid: str, bundle_hash: str, within_s: float
) -> bool:
    """Waits until a worker says that it serves a pipeline with this bundle. False at once where no
    worker lives.

    Raises BusUnavailable or BusRefused.
    """
    deadline = time.monotonic() + within_s
    while reports := await read_workers(line):
        if any(report["pipelines"].get(uid, {}).get("hash") == bundle_hash for report in reports):
            return True
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(LOOK_AGAIN_S)
    return False


# The time of the bus, which dates every message, for what is asked for beside messages: known
# between two looks at it.


class BusClock:
    """Goes on by itself, and not with the machine's own clock, which may be wrong, or be set."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`monotonic` tells seconds. Before the first look it has the time of the machine."""
        self._monotonic = monotonic
        self._ahead_ms = time.time_ns() / 1_000_000 - self._now()  # of `monotonic`
        self._looked = False

    @property
    def now_ms(self) -> int:
        """Unix ms."""
        return int(self._now() + self._ahead_ms)

    async def look(self, connection: Connection) -> None:
        """Asks the server. Raises BusUnavailable or BusRefused."""
        began_ms = self._now()
        self.hear(await server_time(connection), began_ms)

    def hear(self, told_ms: int, began_ms: float) -> None:
        """The server's word, for which it was asked at `began_ms`. It was so at some moment since;
        what fits stays."""
        least, most = told_ms - self._now(), told_ms + 1 - began_ms
        self._ahead_ms = (
            min(max(self._ahead_ms, least), most) if self._looked else (least + most) / 2
        )
        self._looked = True

    def _now(self) -> float:
        return self._monotonic() * 1000

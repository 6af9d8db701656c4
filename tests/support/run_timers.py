"""usage: python -m tests.support.run_timers SOCKET BUNDLE CLOCK. The timers of a worker, alone.

BUNDLE is JSON. CLOCK is a file with 8 bytes: the Unix ms that count, little-endian, which a test
moves. The process prints `ready` after its first look.
"""

import asyncio
import mmap
import sys
from pathlib import Path

import orjson

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from memrelay.worker.intake.timers import Timers

LOOK_S = 0.002


class FileClock:
    """A clock that other processes move."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 8)

    def read_ms(self) -> int:
        return int.from_bytes(self._shared[:8], "little")

    def set_ms(self, now_ms: int) -> None:
        self._shared[:8] = now_ms.to_bytes(8, "little")


async def run(socket: str, bundle: bytes, path: Path) -> None:
    """Run the timers of a bundle until the process is killed."""
    plan, clock = Plan(check(bundle).accepted()), FileClock(path)
    async with ReconnectingConnection(Address(path=socket)) as connection:
        timers = Timers(connection, clock.read_ms, clock=lambda: clock.read_ms() / 1000)
        running = asyncio.create_task(timers.run())
        timers.serve([plan])
        await asyncio.sleep(LOOK_S * 10)
        print("ready", flush=True)
        while not running.done():
            timers.serve([plan])  # the clock may have been moved
            await asyncio.sleep(LOOK_S)
        await running


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], orjson.dumps(orjson.loads(sys.argv[2])), Path(sys.argv[3])))

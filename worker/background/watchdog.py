"""Watches what nobody asks for: how late the event loop is, and whether the open stores could be
written to."""

import asyncio
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Self

from memrelay.memory.memory_id import path_of
from memrelay.memory.stores import OpenStores
from memrelay.memory.threads import DatabaseThread
from memrelay.worker.waiting import beside

TICK_S = 0.05  # a loop that is held up for longer than this is noticed for certain
PROBE_S = 2.0  # between two looks at the open stores of a thread


class Watchdog:
    """Use it as an asynchronous context, while the threads live."""

    def __init__(self, root: Path, threads: Sequence[DatabaseThread]) -> None:
        """`threads` have the stores below the memory root."""
        self._root, self._threads = root, threads
        self._lag_s = 0.0
        self._faults: dict[str, str] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Begins."""
        for work in (self._tick(), self._probe()):
            await self._stack.enter_async_context(beside(work))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends."""
        await self._stack.aclose()

    def take_lag_ms(self) -> float:
        """The longest time by which the loop was late since this was asked last."""
        lag_s, self._lag_s = self._lag_s, 0.0
        return round(1000 * lag_s, 1)

    def fault(self, names: Iterable[str]) -> str:
        """What is wrong with the first of these stores that cannot be written to; "" where nothing
        is."""
        return next((self._faults[name] for name in names if name in self._faults), "")

    def wal_bytes(self, names: Iterable[str]) -> int:
        """The size of the logs of these stores."""
        size = 0
        for name in names:
            with suppress(OSError):
                size += os.stat(f"{path_of(self._root, name)}-wal").st_size
        return size

    async def _tick(self) -> None:
        while True:
            due = time.monotonic() + TICK_S
            await asyncio.sleep(TICK_S)
            self._lag_s = max(self._lag_s, time.monotonic() - due)

    async def _probe(self) -> None:
        while True:
            found: dict[str, str] = {}
            for thread in self._threads:
                found |= await thread.run(OpenStores.probe)
            self._faults = found
            await asyncio.sleep(PROBE_S)

"""Measures the delay of the event loop, and probes whether the open stores can be written."""

import asyncio
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple, Self

from memrelay.memory.engine.free_memory import return_free_memory
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.engine.threads import DatabaseThread
from memrelay.worker.waiting import in_background

# A loop that is blocked for longer than this is always noticed.
TICK_S = 0.05
# Pause between two probes of a thread's open stores.
PROBE_PAUSE_S = 2.0
# Probes between two returns of freed memory.
PROBES_PER_TRIM = 15
# Age of the sizes of a quiet pipeline's stores, which background work still changes.
SIZES_AGE_S = 20.0


class StoreSizes(NamedTuple):
    """The bytes of a pipeline's stores, and of their write-ahead logs."""

    store_bytes: int
    wal_bytes: int


class _KnownSizes(NamedTuple):
    sizes: StoreSizes
    inputs: float
    read_s: float


class Watchdog:
    """Watches the loop and the threads, as an asynchronous context.

    `threads` have the stores below the memory root. Of several watchdogs on one loop, only one
    needs to measure it.
    """

    def __init__(
        self, root: Path, threads: Sequence[DatabaseThread], *, measures_loop: bool = True
    ) -> None:
        self._root, self._threads, self._measures_loop = root, threads, measures_loop
        self._lag_s = 0.0
        self._faults: dict[str, str] = {}
        # By pipeline.
        self._sizes: dict[str, _KnownSizes] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(in_background(self._probe()))
        if self._measures_loop:
            await self._stack.enter_async_context(in_background(self._measure_lag()))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def take_lag_ms(self) -> float:
        """Return the longest delay of the loop since the last call, in ms."""
        lag_s, self._lag_s = self._lag_s, 0.0
        return round(1000 * lag_s, 1)

    def fault(self, names: Iterable[str]) -> str:
        """Return why the first unusable one of these stores cannot be written; "" if all can."""
        return next((self._faults[name] for name in names if name in self._faults), "")

    def store_sizes(self, uid: str, names: Sequence[str], inputs: float) -> StoreSizes:
        """Return the bytes of a pipeline's stores.

        `inputs` is the number of inputs that it has taken. Without new ones, the files are looked
        at only every SIZES_AGE_S: most of many pipelines are quiet.
        """
        now_s, known = time.monotonic(), self._sizes.get(uid)
        if known is None or known.inputs != inputs or now_s - known.read_s > SIZES_AGE_S:
            sizes = StoreSizes(self._file_bytes(names), self._file_bytes(names, "-wal"))
            known = self._sizes[uid] = _KnownSizes(sizes, inputs, now_s)
        return known.sizes

    def _file_bytes(self, names: Iterable[str], suffix: str = "") -> int:
        size = 0
        for name in names:
            with suppress(OSError):
                size += os.stat(f"{store_path(self._root, name)}{suffix}").st_size
        return size

    async def _measure_lag(self) -> None:
        while True:
            due = time.monotonic() + TICK_S
            await asyncio.sleep(TICK_S)
            self._lag_s = max(self._lag_s, time.monotonic() - due)

    async def _probe(self) -> None:
        for number in count(1):
            found: dict[str, str] = {}
            for thread in self._threads:
                found |= await thread.run(OpenStores.probe)
            self._faults = found
            if self._threads and number % PROBES_PER_TRIM == 0:
                await self._threads[0].run(lambda _stores: return_free_memory())
            await asyncio.sleep(PROBE_PAUSE_S)

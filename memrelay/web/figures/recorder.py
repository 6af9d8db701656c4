"""Records the status of the system once a minute, also while no page is open.

Of several web servers with the same memory root, the one with the lock records.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from memrelay.bus.errors import BusError
from memrelay.logs import get_logger
from memrelay.memory.control.figures_file import FiguresFile, Mark, Step
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.web.figures.differences import ALL, OTHERS, Differences, combine, merge_all

log = get_logger(__name__)
LOCK = "figures.lock"
MINUTE_S = 60
# Time between two samples, of which a minute has several so that it shows a short jam.
PAUSE_S = 10.0
# A sample may take this share of the time.
SHARE = 0.01
# Pipelines with figures of their own, in the order of their first message. The others share one
# series.
MAX_PIPELINES = 16
STATUS_TIMEOUT_S = 10.0
# Figures that show that a pipeline is used.
ACTIVITY = ("done", "dead", "waiting", "searches", "delivered", "undelivered", "refused")
ReadStatus = Callable[[], Awaitable[dict[str, Any]]]


class Recorder:
    """Writes the figures file. `read_status` returns the status; `clock` returns Unix seconds."""

    def __init__(
        self,
        root: Path,
        read_status: ReadStatus,
        clock: Callable[[], float] = time.time,
        pause_s: float = PAUSE_S,
    ) -> None:
        self._root, self._file = root, FiguresFile(root)
        self._read_status, self._clock, self._pause_s = read_status, clock, pause_s
        self._differences = Differences()
        self._named: set[str] | None = None
        self._sampled_at = clock()
        # The last minute and its figures by series, until its last sample. It may not be written.
        self.last: tuple[int, Mapping[str, Step]] = (_find_minute(clock()), {})
        # How often a pipeline was used since a sample.
        self.uses = 0
        self._marks = {Mark(int(clock()), "restart", "web server")}
        self._fault = ""

    async def run(self) -> None:
        """Record until cancelled. A fault of the file or the bus stops nothing."""
        lock = None
        try:
            while True:
                started = self._clock()
                if lock is None:
                    lock = _take_lock(self._root / LOCK)
                if lock is not None:
                    await self.sample()
                took_s = max(0.0, self._clock() - started)
                await asyncio.sleep(max(self._pause_s, took_s / SHARE))
        finally:
            if lock is not None:
                os.close(lock)

    async def sample(self) -> None:
        """Take the figures since the last sample, and write the minute that has ended."""
        now = self._clock()
        # A computer that slept has recorded nothing.
        elapsed_s = min(max(0.0, now - self._sampled_at), 2.0 * MINUTE_S)
        self._sampled_at = now
        try:
            async with asyncio.timeout(STATUS_TIMEOUT_S):
                status = await self._read_status()
        except (BusError, StoreBusy, StoreBroken, TimeoutError):
            found = {ALL: {"seconds": elapsed_s, "bus_down_s": elapsed_s}}
        else:
            found = self._differences.take(status, elapsed_s)
            self._note_events(status)
            if self._named is None:
                self._named = set(await self._attempt(self._file.list_series) or ()) - {ALL, OTHERS}
            found = self._select(found)
        minute = _find_minute(now)
        if minute != self.last[0]:
            await self._write()
            self.last = minute, {}
        self.last = minute, merge_all(self.last[1], found)
        self.uses += any(map(_is_used, found.values()))

    async def _write(self) -> None:
        """Write the minute. If that fails, its figures are lost, and its marks wait."""
        minute, steps = self.last
        if not steps:
            return

        def add() -> bool:
            self._file.add({minute: steps}, sorted(self._marks))
            return True

        if await self._attempt(add):
            self._fault = ""
            self._marks.clear()

    async def _attempt(self, call: Callable[[], Any]) -> Any:
        """Return the result of a call of the file, None if it fails. Log a new reason once."""
        try:
            return await asyncio.to_thread(call)
        except (StoreBusy, StoreBroken, OSError) as error:
            if str(error) != self._fault:
                log.warning("figures_not_recorded", reason=str(error))
                self._fault = str(error)
        return None

    def _note_events(self, status: dict[str, Any]) -> None:
        """Note starts of workers and backups. The file keeps each once."""
        for worker in status["workers"]:
            if worker["started_at"]:
                self._marks.add(Mark(worker["started_at"] // 1000, "restart", worker["name"][:100]))
        if backup_ms := status["storage"]["last_backup_at"]:
            self._marks.add(Mark(backup_ms // 1000, "backup", ""))

    def _select(self, found: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
        """Return the series to record: all, the first used pipelines, and the others together."""
        named = self._named if self._named is not None else set()
        named.intersection_update(found)
        for uid, step in found.items():
            if uid != ALL and _is_used(step) and len(named) < MAX_PIPELINES:
                named.add(uid)
        others = [step for uid, step in found.items() if uid != ALL and uid not in named]
        selected = {uid: step for uid, step in found.items() if uid == ALL or uid in named}
        return selected | ({OTHERS: combine(others)} if others else {})


def _find_minute(now: float) -> int:
    """Return when the minute of a time began. Both in Unix seconds."""
    return int(now // MINUTE_S) * MINUTE_S


def _is_used(step: Step) -> bool:
    return any(step.get(name) for name in ACTIVITY)


def _take_lock(file: Path) -> int | None:
    """Return a descriptor that holds the lock, None if another process has it."""
    with suppress(OSError):
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
        else:
            return descriptor
    return None

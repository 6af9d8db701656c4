"""Reads of the recorded figures, shared by all pages until there are new ones."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import reduce
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from aiohttp import web

from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.figures_file import SPANS, FiguresFile, Mark, Step, merge
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.web.auth.authorizer import Caller
from memrelay.web.figures.differences import ALL, combine
from memrelay.web.figures.recorder import Recorder

# Recorded ten-minute steps that a figure needs before it has a normal value: six hours.
MIN_POINTS = 36
MAX_CACHED = 200
LATEST_S = 660
# The last recorded minutes, which are shown as now.
CURRENT_S = 200
MAX_DEPLOYS = 100
# Figures of workers and the host, which only callers for all pipelines see.
OF_ALL_PIPELINES = ("loop_lag_ms", "disk_free_bytes", "bus_memory_bytes", "bus_down_s")
Steps = list[tuple[int, Step]]


class Recorded(NamedTuple):
    """The recorded figures of a span, in Unix seconds. `normal` has the medians of the week."""

    span: str
    since: int
    until: int
    steps: Steps
    marks: list[Mark]
    normal: dict[str, float]


class Figures:
    """The figures of a memory root: those in the file, and the last minute of the recorder of this
    process. `clock` returns Unix seconds.

    A file that cannot be read is like an empty one: the recorder reports the fault.
    """

    def __init__(
        self,
        root: Path,
        catalog: Catalog,
        recorder: Recorder,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._file, self._catalog, self.recorder = FiguresFile(root), catalog, recorder
        self._clock = clock
        self._cache: dict[tuple[Any, ...], Any] = {}
        self._state = (0, 0)

    @property
    def state(self) -> tuple[int, int]:
        """Return numbers that change when a page of figures may have changed.

        A minute is written some seconds after its end.
        """
        return int((self._clock() - 15) // 60), self.recorder.uses

    async def read(self, span: str, caller: Caller, uid: str = "") -> Recorded:
        """Return the figures that a caller may see: of a pipeline, or of all its pipelines."""
        kept, until = SPANS[span], int(self._clock())
        since = until - kept.length_s
        series = await self._choose(caller, uid)
        steps = await self._read_series(span, series)
        marks = [mark for mark in await self._read_marks(uid, caller) if mark.at >= since]
        shown = [(at, step) for at, step in steps if at >= since]
        return Recorded(span, since, until, shown, marks, await self.find_normal(caller, uid))

    async def find_normal(self, caller: Caller, uid: str = "") -> dict[str, float]:
        """Return the medians of the week by figure, of those that have enough steps."""
        series = await self._choose(caller, uid)

        def find() -> dict[str, float]:
            values = defaultdict[str, list[float]](list)
            for _, step in self._read_file("week", series):
                for name, value in step.items():
                    values[name].append(value)
            return {name: median(each) for name, each in values.items() if len(each) >= MIN_POINTS}

        return dict(await self._cached(("normal", *series), find))

    async def share(
        self, name: str, caller: Caller, make: Callable[[], Coroutine[Any, Any, Any]]
    ) -> Any:
        """Return what `make` makes of the figures that a caller sees, once for each state."""
        key = (name, *(await self._choose(caller, "")))
        self._forget_earlier()
        cache = self._cache
        if key not in cache:
            cache[key] = await make()
        return cache[key]

    async def find_latest(self, caller: Caller, within_s: int = LATEST_S) -> Step:
        """Return the figures of the last ten minutes, or of another time."""
        steps = await self._read_series("day", await self._choose(caller, ""))
        since = self._clock() - within_s
        return reduce(merge, (step for at, step in steps if at >= since), {})

    async def _choose(self, caller: Caller, uid: str) -> list[str]:
        """Return the series with the figures that a caller wants, of those that are recorded."""

        def read() -> list[str]:
            last = self.recorder.last[1]
            try:
                return list(dict.fromkeys([*self._file.list_series(), *last]))
            except (StoreBusy, StoreBroken, OSError):
                return list(last)

        if caller.sees_all and not uid:
            return [ALL]
        known: list[str] = await self._cached(("series",), read)
        return [one for one in known if (one == uid if uid else one in caller.pipelines)]

    async def _read_series(self, span: str, series: Sequence[str]) -> Steps:
        steps: Steps = await self._cached((span, *series), lambda: self._read_file(span, series))
        return steps

    def _read_file(self, span: str, series: Sequence[str]) -> Steps:
        """Return the steps of the span, added up for several series."""
        since = int(self._clock()) - SPANS[span].length_s
        try:
            found = [
                self._add_last(name, self._file.read(span, name, since))
                if span == "day"
                else self._file.read(span, name, since)
                for name in series
            ]
        except (StoreBusy, StoreBroken, OSError):
            return []
        if len(found) == 1:
            return found[0]
        by_time = defaultdict[int, list[Mapping[str, float]]](list)
        for at, step in (one for steps in found for one in steps):
            by_time[at].append(step)
        return [(at, combine(steps)) for at, steps in sorted(by_time.items())]

    def _add_last(self, series: str, steps: Steps) -> Steps:
        """Return the steps with that of the last minute, if the file does not have it."""
        minute, by_series = self.recorder.last
        is_new = series in by_series and not (steps and steps[-1][0] >= minute)
        return [*steps, (minute, by_series[series])] if is_new else steps

    async def _read_marks(self, uid: str, caller: Caller) -> list[Mark]:
        """Return the restarts and backups of the week, and the deploys that the caller sees.

        Only callers for all pipelines see backups and the names of workers.
        """
        since = int(self._clock()) - SPANS["week"].length_s

        def read() -> list[Mark]:
            try:
                return self._file.read_marks(since)
            except (StoreBusy, StoreBroken, OSError):
                return []

        marks: list[Mark] = list(await self._cached(("marks",), read))
        if not caller.sees_all:
            marks = [mark._replace(subject="") for mark in marks if mark.kind == "restart"]
        try:
            deployed = await self._catalog.deployed_since(since * 1000, MAX_DEPLOYS)
        except (StoreBusy, StoreBroken):
            deployed = []
        marks += [
            Mark(one.deployed_at // 1000, "deploy", f"{one.name} version {one.version}")
            for one in deployed
            if (one.uid == uid if uid else caller.sees(one.uid))
        ]
        return sorted(marks)

    async def _cached(self, key: tuple[Any, ...], read: Callable[[], Any]) -> Any:
        """Return the result of a read of the file, which is shared while the state is the same."""
        self._forget_earlier()
        cache = self._cache
        if key not in cache:
            cache[key] = await asyncio.to_thread(read)
        return cache[key]

    def _forget_earlier(self) -> None:
        """Forget what was read in another state."""
        if self.state != self._state or len(self._cache) >= MAX_CACHED:
            self._state, self._cache = self.state, {}


FIGURES = web.AppKey("figures", Figures)

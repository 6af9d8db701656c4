"""Statuses with given counters, and a recorder that a test's clock drives."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from memrelay.memory.control.figures_file import FiguresFile, Mark
from memrelay.web.figures.differences import ALL
from memrelay.web.figures.recorder import Recorder
from tests.support.bundles import Json

BOUNDS_S = (0.01, 0.1, 1.0)
# A Monday at midnight, in Unix seconds.
START = 1_764_547_200


def make_row(uid: str, *, owner: str | None = "w", **figures: Any) -> Json:
    """Return the row of a pipeline in a status."""
    none = dict.fromkeys(("done", "dead", "changes", "searches", "lag", "oldest_s"), 0)
    sizes = {"store_bytes": 4096, "wal_bytes": 0, "vectors_todo": 0}
    return {"pipeline_uid": uid, "owner": owner, "paused": "", **none, **sizes, **figures}


def make_status(
    *rows: Json, started_at: int = START * 1000, counts: tuple[int, ...] = (0, 0, 0, 0)
) -> Json:
    """Return a status of pipelines that one worker serves."""
    worker = {
        "name": "w",
        "started_at": started_at,
        "loop_lag_ms": 1.0,
        "latency": {"commit": {"bounds_s": BOUNDS_S, "counts": list(counts), "sum_s": 0.0}},
    }
    storage = {"disk_free_bytes": 10**10, "bus_memory_bytes": 10**6, "last_backup_at": 0}
    return {"workers": [worker], "pipelines": list(rows), "storage": storage}


class Recording:
    """A recorder in a folder. Each sample takes a status and moves the clock by a minute."""

    def __init__(self, root: Path) -> None:
        self.now = float(START)
        self._status: Json = {}
        self.recorder = Recorder(root, self._read, lambda: self.now)

    async def _read(self) -> Json:
        return self._status

    async def sample(self, status: Json, seconds: float = 60.0) -> None:
        """Take the figures of the time before `status`."""
        self.now += seconds
        self._status = status
        await self.recorder.sample()


def fill_week(root: Path, uids: Iterable[str], now: float) -> None:
    """Record a week with a bad night: a jam, dead letters, no worker, and a server that was off."""
    last = int(now) // 60 * 60
    recorded = dict[int, dict[str, dict[str, float]]]()
    for minutes in (*range(7 * 1440, 1440, -10), *range(1440, 0, -1)):
        if 300 < minutes < 340:
            continue
        at, length = last - 60 * minutes, 10 if minutes > 1440 else 1
        recorded[at] = dict.fromkeys((ALL, *uids), _make_step(at, minutes, length))
    marks = [Mark(last - 60 * minutes, "backup", "") for minutes in (700, 2140)]
    FiguresFile(root).add(recorded, [*marks, Mark(last - 60 * 610, "restart", "host:1")])


def _make_step(at: int, minutes: int, length: int) -> dict[str, float]:
    has_jam, is_down = 560 < minutes < 620, 420 < minutes < 436
    by_day = max(0.0, math.sin((at % 86_400 / 3600 - 6) / 12 * math.pi))
    messages = 0.0 if is_down else length * (20 + 60 * by_day + at // 60 % 7)
    return {
        "seconds": 60.0 * length,
        "done": messages,
        "changes": messages // 2,
        "searches": messages // 3,
        "dead": 2.0 if 600 < minutes < 612 else 0.0,
        "waiting": 1500.0 if has_jam or is_down else 3.0,
        "p95_s": 0.204 if has_jam else 0.005,
        "unserved_s": 60.0 if is_down else 0.0,
        "store_bytes": 5e7 - 3000 * minutes,
        "disk_free_bytes": 5e10,
    }

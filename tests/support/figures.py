"""Statuses with given counters, and a recorder that a test's clock drives."""

from pathlib import Path
from typing import Any

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

"""The figures of the time between two statuses: counters become differences."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from memrelay.memory.control.figures_file import merge

Json = dict[str, Any]
# The series of all pipelines, and that of those without a series.
ALL, OTHERS = "", "others"
# Counters of a pipeline, by figure. They begin at 0 with its worker.
COUNTERS = {
    "done": "done",
    "dead": "dead",
    "changes": "changes",
    "searches": "searches",
    "unsent": "failed_sends",
}
SIZES = {"store_bytes": "store_bytes", "wal_bytes": "wal_bytes", "vectors_todo": "vectors_todo"}
GAUGES = {"waiting": "lag", "oldest_s": "oldest_s"} | SIZES
# Figures of several pipelines that are added up. The highest counts for the others.
SUMMED = (*COUNTERS, *SIZES, "waiting", "delivered", "undelivered", "refused")


class Differences:
    """Makes figures of successive statuses.

    A counter that is lower than before, or belongs to another start of a worker, began at 0 again.
    """

    def __init__(self) -> None:
        # By the counted thing, and the start of the worker that counts it.
        self._last: dict[Hashable, list[float]] = {}
        self._current: dict[Hashable, list[float]] = {}
        self._is_first = True

    def take(self, status: Json, elapsed_s: float) -> dict[str, dict[str, float]]:
        """Return the figures by pipeline since the last call, and those of all of them."""
        starts = {worker["name"]: worker["started_at"] for worker in status["workers"]}
        refused = status.get("refused_webhooks", {})
        found = {
            row["pipeline_uid"]: self._measure(
                row, starts.get(row["owner"]), elapsed_s, refused.get(row["pipeline_uid"], 0)
            )
            for row in status["pipelines"]
        }
        whole = combine(list(found.values())) | {"seconds": elapsed_s}
        if not starts and found:
            whole["unserved_s"] = elapsed_s
        found[ALL] = whole | self._measure_workers(status)
        # Counters of workers that are gone are forgotten.
        self._last, self._current, self._is_first = self._current, {}, False
        return found

    def _measure(
        self, row: Json, started_at: int | None, elapsed_s: float, refused: int = 0
    ) -> dict[str, float]:
        """Return the figures of a pipeline."""
        step = {figure: float(row[name]) for figure, name in GAUGES.items()}
        step |= {
            "seconds": elapsed_s,
            "unserved_s": 0.0 if row["owner"] else elapsed_s,
            "paused_s": elapsed_s if row["paused"] else 0.0,
        }
        if refused:
            (step["refused"],) = self._count((row["pipeline_uid"], "refused"), [refused])
        if started_at is None:
            return step
        key = row["pipeline_uid"], row["owner"], started_at
        counted = self._count((*key, "counts"), [row.get(name, 0) for name in COUNTERS.values()])
        step |= dict(zip(COUNTERS, counted, strict=True))
        deliveries = row.get("deliveries")
        if deliveries is not None:
            tries, delivered = deliveries["tries"], deliveries["delivered"]
            tried, accepted = self._count((*key, "deliveries"), [tries, delivered])
            step |= {"delivered": accepted, "undelivered": max(0.0, tried - accepted)}
            histogram = deliveries["duration"]
            counts = self._count((*key, "durations"), histogram["counts"])
            step |= _name("delivery_p95_s", find_quantile(histogram["bounds_s"], counts, 0.95))
        return step

    def _measure_workers(self, status: Json) -> dict[str, float]:
        """Return the figures of all workers together, and of the host."""
        workers, storage = status["workers"], status.get("storage", {})
        step = {name: float(storage[name]) for name in ("disk_free_bytes",) if name in storage}
        step["bus_memory_bytes"] = float(storage.get("bus_memory_bytes", 0))
        if workers:
            step["loop_lag_ms"] = max(worker["loop_lag_ms"] for worker in workers)
        bounds: Sequence[float] = ()
        counts = defaultdict[int, float](float)
        for worker in workers:
            histogram = worker.get("latency", {}).get("commit")
            if histogram is None:
                continue
            bounds, key = histogram["bounds_s"], (worker["name"], worker["started_at"])
            for number, count in enumerate(self._count(key, histogram["counts"])):
                counts[number] += count
        return step | _name("p95_s", find_quantile(bounds, list(counts.values()), 0.95))

    def _count(self, key: Hashable, values: Sequence[float]) -> list[float]:
        """Return by how much counters have grown."""
        current = [float(value) for value in values]
        zeros = current if self._is_first else [0.0] * len(current)
        before = self._last.get(key, zeros)
        self._current[key] = current
        return [
            now - last if now >= last else now for now, last in zip(current, before, strict=True)
        ]


def combine(steps: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the figures of several pipelines at the same time."""
    found: dict[str, float] = {}
    for step in steps:
        sums = {name: found.get(name, 0.0) + step[name] for name in SUMMED if name in step}
        most = {
            name: max(found.get(name, value), value)
            for name, value in step.items()
            if name not in sums
        }
        found |= sums | most
    return found


def merge_all(
    known: Mapping[str, Mapping[str, float]], more: Mapping[str, Mapping[str, float]]
) -> dict[str, Mapping[str, float]]:
    """Return the steps by series of two parts of a minute."""
    return {**known, **{name: merge(known.get(name, {}), step) for name, step in more.items()}}


def find_quantile(bounds: Sequence[float], counts: Sequence[float], share: float) -> float | None:
    """Return the value below which a share of a histogram lies, None if it is empty.

    The last count has no upper bound: its values count as the last bound.
    """
    rank = share * sum(counts)
    if not rank:
        return None
    before, low = 0.0, 0.0
    for bound, count in zip(bounds, counts, strict=False):
        if before + count >= rank:
            return low + (bound - low) * (rank - before) / count
        before, low = before + count, bound
    return low


def _name(figure: str, value: float | None) -> dict[str, float]:
    return {} if value is None else {figure: value}

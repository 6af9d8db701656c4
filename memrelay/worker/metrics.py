"""Counts what a worker has done for each pipeline since its start."""

import time
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import filterfalse
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from memrelay.worker.run.outcome import Outcome

# Upper bounds of the latency classes in seconds. Longer latencies are counted without a bound.
LATENCY_BOUNDS_S = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
# Inputs of one batch whose latency is measured.
SAMPLES = 16
NONE: Mapping[str, int] = MappingProxyType({})
# Rates are averages over this time.
WINDOW_S = 10.0
_uid, _delayed = attrgetter("uid"), attrgetter("delayed")


class Latency:
    """A histogram of latencies since the start of the worker."""

    def __init__(self) -> None:
        self._counts = [0] * (len(LATENCY_BOUNDS_S) + 1)
        self._sum_s = 0.0

    def observe(self, latency_s: float) -> None:
        """Count one latency. A negative one, after a change of a clock, counts as zero."""
        self._counts[bisect_left(LATENCY_BOUNDS_S, latency_s)] += 1
        self._sum_s += max(0.0, latency_s)

    def read(self) -> dict[str, Any]:
        """Return `bounds_s`, `counts` (the last one has no bound) and `sum_s`."""
        return {
            "bounds_s": LATENCY_BOUNDS_S,
            "counts": list(self._counts),
            "sum_s": round(self._sum_s, 6),
        }


class Metrics:
    """Counts inputs, a batch at a time, in the thread of the event loop. Counts only grow.

    `clock` returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._in: Counter[str] = Counter()
        self._done: Counter[str] = Counter()
        self._dead: Counter[str] = Counter()
        self._handler_s: defaultdict[str, float] = defaultdict(float)
        self._duplicates: Counter[str] = Counter()
        self._retried: Counter[str] = Counter()
        self._pauses: Counter[str] = Counter()
        self._failed_sends: Counter[str] = Counter()
        # By pipeline: why its batch is repeated.
        self.paused: dict[str, str] = {}
        # Consumer groups that were missing.
        self.recreated = 0
        # From the arrival of an input to its commit, and from there to the bus's confirmation.
        self.commit_latency, self.publish_latency = Latency(), Latency()
        self._past: deque[tuple[float, Counter[str]]] = deque()

    def count_in(self, uid: str, count: int) -> None:
        self._in[uid] += count

    def count(
        self, outcomes: Sequence[Outcome], took_s: float = 0.0, duplicates: Mapping[str, int] = NONE
    ) -> None:
        """Count the inputs of a committed batch; `duplicates` were answered from the inbox."""
        counted = Counter(map(_uid, filterfalse(_delayed, outcomes)))
        each_s = took_s / max(1, counted.total())
        for uid, count in counted.items():
            self._done[uid] += count
            self._handler_s[uid] += each_s * count
        if duplicates:
            self._duplicates.update(duplicates)

    def sample_commits(self, outcomes: Sequence[Outcome], now_ms: int) -> None:
        """Measure the latency of some inputs of a batch that was just committed.

        `now_ms` is the server's time, as in the IDs of entries. Continuations and replays are left
        out: their time includes pauses between retries.
        """
        for outcome in outcomes[:: 1 + len(outcomes) // SAMPLES]:
            if not (outcome.delayed or outcome.pending_store or outcome.replay_entry):
                arrived_ms = int(outcome.id.partition("-")[0])
                self.commit_latency.observe((now_ms - arrived_ms) / 1000)

    def count_dead(self, uids: Iterable[str]) -> None:
        self._dead.update(uids)

    def count_retried(self, uids: Iterable[str]) -> None:
        self._retried.update(uids)

    def count_failed_send(self, uid: str) -> None:
        self._failed_sends[uid] += 1

    def pause(self, uids: Iterable[str], reason: str) -> bool:
        """Mark pipelines as paused. Return whether the reason is new for one of them."""
        paused = list(uids)
        is_new = any(self.paused.get(uid) != reason for uid in paused)
        self._pauses.update(paused)
        self.paused.update(dict.fromkeys(paused, reason))
        return is_new

    def resume(self, uids: Iterable[str]) -> bool:
        """Mark pipelines as running. Return whether one of them was paused."""
        resumed = [uid for uid in uids if uid in self.paused] if self.paused else []
        for uid in resumed:
            del self.paused[uid]
        return bool(resumed)

    def read(self, uids: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return the counts by pipeline.

        | key | meaning |
        |---|---|
        | in | inputs that were taken |
        | done | inputs that were finished |
        | dead | dead letters |
        | retried | retries that were scheduled |
        | duplicates | inputs that were answered from the inbox |
        | pauses | failed attempts to run a batch |
        | failed_sends | requests of http_request and webhook_send that ended with an error |
        | handler_s | time of batches in seconds |
        | rate | finished inputs per second |

        The rate covers the last ten seconds, or the time since the reading before the last one if
        that is longer.
        """
        now, before = self._clock(), self._past[0] if self._past else None
        since_s = max(now - before[0], 1e-3) if before else 1.0
        counts = {}
        for uid in uids:
            done = self._done[uid]
            recent = done - before[1][uid] if before else 0
            counts[uid] = {
                "in": self._in[uid],
                "done": done,
                "dead": self._dead[uid],
                "retried": self._retried[uid],
                "duplicates": self._duplicates[uid],
                "pauses": self._pauses[uid],
                "failed_sends": self._failed_sends[uid],
                "handler_s": round(self._handler_s[uid], 6),
                "rate": round(recent / since_s, 1),
            }
        self._past.append((now, Counter(self._done)))
        while len(self._past) > 1 and self._past[0][0] < now - WINDOW_S:
            self._past.popleft()
        return counts

"""The agenda: inputs that are left alone until their time comes, the soonest first."""

import time
from collections import Counter
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count

from worker.inputs import Input

MOST_WAITING, MOST_BYTES = (
    10_000,
    64 << 20,
)  # beyond which a group takes nothing new before some have left


class Agenda:
    """Asks a clock that only ever goes on, so that nothing comes at once, or never, when the
    machine's is set anew."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._clock = clock
        self._waiting: list[
            tuple[float, int, int, Input]
        ] = []  # a heap: when, in order of arrival; bytes
        self._numbers = count()
        self._bytes = 0
        self.counts: Counter[str] = Counter()  # how many wait of each pipeline

    @property
    def full(self) -> bool:
        """Whether so much waits that nothing should be added."""
        return len(self._waiting) >= MOST_WAITING or self._bytes >= MOST_BYTES

    @property
    def next_s(self) -> float | None:
        """In how many seconds the next one is to be taken; None where none waits."""
        return max(0.0, self._waiting[0][0] - self._clock()) if self._waiting else None

    def add(self, work: Input, size: int, in_s: float) -> None:
        """To be run in so many seconds; `size` is what it takes in memory, bytes."""
        heappush(self._waiting, (self._clock() + in_s, next(self._numbers), size, work))
        self._bytes += size
        self.counts[work.plan.uid] += 1

    def drop(self, unwanted: Callable[[Input], bool]) -> list[Input]:
        """Forgets some of those that wait, and returns them."""
        dropped = [entry for entry in self._waiting if unwanted(entry[3])]
        for entry in dropped:
            self._waiting.remove(entry)
            self._bytes -= entry[2]
            self.counts[entry[3].plan.uid] -= 1
        heapify(self._waiting)
        return [entry[3] for entry in dropped]

    def take(self) -> list[Input]:
        """Those whose time has come, in the order in which they were due."""
        taken: list[Input] = []
        while self._waiting and self._waiting[0][0] <= self._clock():
            _, _, size, work = heappop(self._waiting)
            self._bytes -= size
            self.counts[work.plan.uid] -= 1
            taken.append(work)
        return taken

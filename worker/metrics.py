"""The tally: what a worker has done for each pipeline since it began, how fast, and what it waits
for now."""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import filterfalse
from operator import attrgetter
from types import MappingProxyType

from memrelay.worker.run.outcome import Outcome

NONE: Mapping[str, int] = MappingProxyType({})
WINDOW_S = 10.0  # over which a rate is taken
_uid, _put_off = attrgetter("uid"), attrgetter("put_off")


class Metrics:
    """Counts inputs; only ever grows. Counted a batch at a time, in the event loop's thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._clock = clock
        self._in: Counter[str] = Counter()
        self._done: Counter[str] = Counter()
        self._dead: Counter[str] = Counter()
        self._handler_s: defaultdict[str, float] = defaultdict(float)
        self._duplicates: Counter[str] = Counter()
        self._retried: Counter[str] = Counter()
        self._pauses: Counter[str] = Counter()
        self.paused: dict[str, str] = {}  # pipeline -> why its batch is tried again and again
        self.recreated = 0  # consumer groups that were gone
        self._past: deque[tuple[float, Counter[str]]] = deque()

    def count_in(self, uid: str, count: int) -> None:
        """Inputs of a pipeline that were taken."""
        self._in[uid] += count

    def count(
        self, outcomes: Sequence[Outcome], took_s: float = 0.0, duplicates: Mapping[str, int] = NONE
    ) -> None:
        """The inputs of a batch that has been committed, the time that it took, and how many the
        inbox answered."""
        counted = Counter(map(_uid, filterfalse(_put_off, outcomes)))
        each_s = took_s / max(1, counted.total())
        for uid, count in counted.items():
            self._done[uid] += count
            self._handler_s[uid] += each_s * count
        if duplicates:
            self._duplicates.update(duplicates)

    def count_dead(self, uids: Iterable[str]) -> None:
        """The pipelines of inputs that were given up."""
        self._dead.update(uids)

    def count_retried(self, uids: Iterable[str]) -> None:
        """The pipelines of inputs that are to be tried again later."""
        self._retried.update(uids)

    def pause(self, uids: Iterable[str], reason: str) -> bool:
        """A batch of these pipelines could not be done, and is tried again. Returns whether that is
        news."""
        named = list(uids)
        news = any(self.paused.get(uid) != reason for uid in named)
        self._pauses.update(named)
        self.paused.update(dict.fromkeys(named, reason))
        return news

    def resume(self, uids: Iterable[str]) -> bool:
        """Their work was done. Returns whether that is news."""
        known = [uid for uid in uids if uid in self.paused] if self.paused else []
        for uid in known:
            del self.paused[uid]
        return bool(known)

    def read(self, uids: Sequence[str]) -> dict[str, dict[str, float]]:
        """By uid: {"in": inputs that were taken, "done": those that came to an end, "dead": those
        that were given up,
        "retried": those that were put off, "duplicates": those that the inbox answered, "pauses":
        how often a batch could not
        be done and was tried again, "handler_s": what batches took, "rate": done a second}.

        The rate is that of the last ten seconds, or since the second last reading where that is
        longer ago.
        """
        now, before = self._clock(), self._past[0] if self._past else None
        since_s = max(now - before[0], 1e-3) if before else 1.0
        told = {}
        for uid in uids:
            done = self._done[uid]
            lately = done - before[1][uid] if before else 0
            told[uid] = {
                "in": self._in[uid],
                "done": done,
                "dead": self._dead[uid],
                "retried": self._retried[uid],
                "duplicates": self._duplicates[uid],
                "pauses": self._pauses[uid],
                "handler_s": round(self._handler_s[uid], 6),
                "rate": round(lately / since_s, 1),
            }
        self._past.append((now, Counter(self._done)))
        while len(self._past) > 1 and self._past[0][0] < now - WINDOW_S:
            self._past.popleft()
        return told

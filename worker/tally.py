"""The tally: what a worker has done for each pipeline since it began, and how fast."""
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from worker.outcome import Outcome

WINDOW_S = 10.0   # over which a rate is taken
_uid = attrgetter("uid")


class Tally:
    """Counts inputs; only ever grows. Counted a batch at a time, in the event loop's thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._clock = clock
        self._done: Counter[str] = Counter()
        self._dead: Counter[str] = Counter()
        self._retried: Counter[str] = Counter()
        self._past: deque[tuple[float, Counter[str]]] = deque()

    def count(self, outcomes: Sequence[Outcome]) -> None:
        """The inputs of a batch that has been committed."""
        ended = [outcome for outcome in outcomes if not outcome.put_off]
        self._done.update(map(_uid, ended))

    def count_dead(self, uids: Iterable[str]) -> None:
        """The pipelines of inputs that were given up."""
        self._dead.update(uids)

    def count_retried(self, uids: Iterable[str]) -> None:
        """The pipelines of inputs that are to be tried again later."""
        self._retried.update(uids)

    def read(self, uids: Sequence[str]) -> dict[str, dict[str, float]]:
        """By uid: {"done": inputs that came to an end, "dead": those that were given up, "retried", "rate": done a second}.

        The rate is that of the last ten seconds, or since the second last reading where that is longer ago.
        """
        now, before = self._clock(), self._past[0] if self._past else None
        since_s = max(now - before[0], 1e-3) if before else 1.0
        told = {}
        for uid in uids:
            done = self._done[uid]
            lately = done - before[1][uid] if before else 0
            told[uid] = {"done": done, "dead": self._dead[uid], "retried": self._retried[uid],
                         "rate": round(lately / since_s, 1)}
        self._past.append((now, Counter(self._done)))
        while len(self._past) > 1 and self._past[0][0] < now - WINDOW_S:
            self._past.popleft()
        return told

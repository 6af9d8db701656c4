"""Inputs that cannot come back, so that their inbox rows can be deleted."""

import time
from collections import deque
from collections.abc import Callable, Iterable

from memrelay.bus.replication import Replication
from memrelay.worker.run.outcome import Outcome

# Limits of what waits for the replicas of the server, if there are none or they are far behind.
MAX_WAITING, MAX_WAIT_S = 50_000, 60.0
# How long a former primary may still look like one. What it acknowledged meanwhile comes back.
DEMOTION_S = 10.0


class SettledInputs:
    """The settled inputs of a group, by store.

    An input settles when the server has its acknowledgement. If a replica may replace the server,
    it settles when all connected replicas have the acknowledgement and DEMOTION_S is over, because
    a failover brings the entry back otherwise. `clock` returns seconds as time.monotonic() does.
    """

    def __init__(
        self, replication: Replication, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._replication, self._clock = replication, clock
        self._settled: dict[str, list[str]] = {}
        # When the server had the acknowledgement (time.monotonic()), the store and the input.
        self._waiting: deque[tuple[float, str, str]] = deque()

    def add_outcomes(self, outcomes: Iterable[Outcome]) -> None:
        """Note the inputs of a batch that the server has acknowledged."""
        keys: dict[str, list[str]] = {}
        for outcome in outcomes:
            if outcome.store:
                keys.setdefault(outcome.store, []).append(outcome.key)
        for memory_id, of_store in keys.items():
            self.add(memory_id, of_store)

    def add(self, memory_id: str, keys: Iterable[str]) -> None:
        """Note inputs that the server has acknowledged."""
        now_s = self._clock()
        if self._replication.confirmed_s > now_s:
            self._settled.setdefault(memory_id, []).extend(keys)
        else:
            self._waiting.extend((now_s, memory_id, key) for key in keys)

    def take(self) -> dict[str, list[str]]:
        """Return the settled inputs. Callers remove those whose rows they delete."""
        waiting = self._waiting
        if not waiting:
            return self._settled
        now_s = self._clock()
        until_s = max(self._replication.confirmed_s, now_s - MAX_WAIT_S)
        until_s = min(until_s, now_s - DEMOTION_S)
        while waiting and (waiting[0][0] < until_s or len(waiting) > MAX_WAITING):
            _, memory_id, key = waiting.popleft()
            self._settled.setdefault(memory_id, []).append(key)
        return self._settled

    def withdraw(self, memory_id: str, key: str) -> None:
        """Keep the row of an input, because a replay writes it again."""
        if key in (settled := self._settled.get(memory_id, [])):
            settled.remove(key)
        self._waiting = deque(one for one in self._waiting if one[1:] != (memory_id, key))

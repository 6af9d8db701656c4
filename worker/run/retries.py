"""Retries: an input whose block asks for it is kept in a store, left alone for a while, and run
again."""

from typing import NamedTuple
from zlib import crc32

from memrelay.blocks.contract import Transient
from memrelay.memory.sqlite.inbox import Pending
from memrelay.memory.stores import OpenStores
from memrelay.worker.errors import describe_error
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.run.inputs import Input, as_pending
from memrelay.worker.run.outcome import Outcome, outcome_of

PUT_OFF = b""  # stands in the inbox for the outputs of an input whose copy waits in the same store
# a pause is longer by up to this share, so that what failed together does not come back together
JITTER = 0.25


class Delayed(NamedTuple):
    """An input that a store keeps now."""

    pending: Pending
    memory_id: str
    reason: str
    outcome: Outcome | None  # the end of its entry, where it came in one


class Retries:
    """Decides when an input is tried again and whether at all, and keeps those of one batch in
    their stores."""

    def __init__(self, limits: WorkerLimits, origins: dict[str, str], now_ms: int) -> None:
        """`origins`: by key, which store keeps an input that is none of an entry. `now_ms` is when
        the batch began."""
        self._limits, self._origins, self.now_ms = limits, origins, now_ms
        self._noted: dict[str, list[Delayed]] = {}  # by store

    def note(self, work: Input, fault: Transient, stores: OpenStores) -> str:
        """To be put off with the next `keep_some`; or, where it was tried often enough, the reason
        to give it up."""
        memory_id = self._origins.get(work.key, "")
        kept = stores.get(memory_id).pending.find(work.key) if memory_id else None
        attempts = max(1, (kept.attempts if kept else 0) + fault.counts)
        if fault.counts and attempts > self._limits.retries:
            return f"{describe_error(fault)} (tried {attempts} times; worker.retries is {self._limits.retries})"
        due = self.now_ms + int(1000 * pause_s(fault, work.key, attempts, self._limits))
        if kept is not None:
            noted = Delayed(
                kept._replace(due=due, attempts=attempts), memory_id, describe_error(fault), None
            )
        else:
            memory_id = work.plan.stores[0]
            noted = Delayed(
                as_pending(work, due),
                memory_id,
                describe_error(fault),
                delayed_message(work, memory_id),
            )
        self._noted.setdefault(memory_id, []).append(noted)
        return ""

    def keep_some(self, stores: OpenStores, settled: dict[str, list[str]]) -> list[Delayed] | None:
        """Commits what was noted for one store; None when nothing is left. Raises StoreBusy: then
        it may be called again.

        `settled` are inputs by store that cannot come back: the inbox forgets them.
        """
        if not self._noted:
            return None
        memory_id, noted = next(iter(self._noted.items()))
        with stores.get(memory_id).transaction() as store:
            store.inbox.forget(settled.get(memory_id, []))
            for pending, _, _, outcome in noted:
                if outcome is None:
                    store.pending.put_off(pending)
                else:
                    store.pending.add(pending)
                    store.inbox.add(outcome.key, pending.bundle, PUT_OFF)
        del self._noted[memory_id]
        settled.pop(memory_id, None)
        return noted


def delayed_message(work: Input, memory_id: str) -> Outcome:
    """The end of an entry whose input waits in a store: it says nothing, and is to be
    acknowledged."""
    outcome = outcome_of(work, memory_id)
    outcome.put_off = True
    return outcome


def pause_s(fault: Transient, key: str, attempts: int, limits: WorkerLimits) -> float:
    """How long an input is left alone that has failed so many times: what its block asks for, or
    twice as long each time."""
    asked = fault.after_s
    if asked is not None and asked >= 0:
        return min(asked, limits.longest_pause_s)
    share = crc32(f"{key} {attempts}".encode()) / 0xFFFF_FFFF
    pause = limits.first_pause_s * 2.0 ** min(attempts - 1, 64) * (1 + JITTER * share)
    return min(pause, limits.longest_pause_s)

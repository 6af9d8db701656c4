"""Retries: a store keeps an input whose block raised Transient, until its pause is over."""

from typing import NamedTuple
from zlib import crc32

from memrelay.blocks.contract import Transient
from memrelay.memory.engine.inbox import Pending
from memrelay.memory.engine.stores import OpenStores
from memrelay.worker.errors import find_subscriber
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.run.inputs import Input, to_pending
from memrelay.worker.run.outcome import Outcome, new_outcome

# The outputs in the inbox row of an input that waits as a pending row of the same store.
DELAYED = b""
# Pauses are longer by up to this share, so that inputs that failed together return apart.
JITTER = 0.25


class Delayed(NamedTuple):
    """An input that a store keeps for a retry.

    `outcome` finishes its entry; it is None for an input that was kept before.
    """

    pending: Pending
    memory_id: str
    reason: str
    outcome: Outcome | None


class Retries:
    """Decides when the failed inputs of one batch are retried, and keeps them in their stores.

    `pending_stores` has, by key, the store of each input that did not come in an entry. `now_ms`
    is the start of the batch.
    """

    def __init__(self, limits: WorkerLimits, pending_stores: dict[str, str], now_ms: int) -> None:
        self._limits, self._pending_stores, self._now_ms = limits, pending_stores, now_ms
        self._noted: dict[str, list[Delayed]] = {}  # by store

    def note(self, work: Input, fault: Transient, reason: str, stores: OpenStores) -> str:
        """Note an input for `keep_some` and return "", or return why it is not retried again.

        `reason` is the text of the fault.
        """
        memory_id = self._pending_stores.get(work.key, "")
        kept = stores.get(memory_id).pending.find(work.key) if memory_id else None
        attempts = max(1, (kept.attempts if kept else 0) + fault.counts)
        most = self._limits.retries
        if fault.counts and attempts > most:
            return f"{reason} (tried {attempts} times; worker.retries is {most})"
        if subscriber := find_subscriber(fault):
            reason = f"{reason} ({subscriber})"
        due = self._now_ms + int(1000 * pause_s(fault, work.key, attempts, self._limits))
        if kept is not None:
            noted = Delayed(kept._replace(due=due, attempts=attempts), memory_id, reason, None)
        else:
            memory_id = work.plan.stores[0]
            outcome = delayed_outcome(work, memory_id)
            noted = Delayed(to_pending(work, due), memory_id, reason, outcome)
        self._noted.setdefault(memory_id, []).append(noted)
        return ""

    def keep_some(self, stores: OpenStores, settled: dict[str, list[str]]) -> list[Delayed] | None:
        """Commit the noted inputs of one store; return None if there are none.

        The inbox forgets its `settled` inputs. Raises StoreBusy: a second call continues.
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
                    # A replay replaces the rows of its last run.
                    store.pending.remove([outcome.key])
                    store.inbox.forget([outcome.key])
                    store.pending.add(pending)
                    store.inbox.add(outcome.key, pending.bundle, DELAYED)
        del self._noted[memory_id]
        settled.pop(memory_id, None)
        return noted


def delayed_outcome(work: Input, memory_id: str) -> Outcome:
    """Return the outcome of an entry whose input waits in a store: only an acknowledgement."""
    outcome = new_outcome(work, memory_id)
    outcome.delayed = True
    return outcome


def pause_s(fault: Transient, key: str, attempts: int, limits: WorkerLimits) -> float:
    """Return the pause before the next attempt in seconds.

    It is what the block asks for, or doubles with each attempt.
    """
    requested = fault.after_s
    if requested is not None and requested >= 0:
        return min(requested, limits.longest_pause_s)
    share = crc32(f"{key} {attempts}".encode()) / 0xFFFF_FFFF
    pause = limits.first_pause_s * 2.0 ** min(attempts - 1, 64) * (1 + JITTER * share)
    return min(pause, limits.longest_pause_s)

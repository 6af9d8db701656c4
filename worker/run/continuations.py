"""Continuations: what a group runs beside its entries. Steps in another store, and inputs that wait
to be tried again.

A store keeps each of them until what it led to is on the bus.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

import structlog

from memrelay.memory.sqlite.inbox import Pending
from memrelay.worker.background.store_tasks import forget_continuations, kept_continuations
from memrelay.worker.errors import TooMany
from memrelay.worker.run.busy_retry import BusyRetry
from memrelay.worker.run.inputs import Input, Work, from_pending
from memrelay.worker.run.outcome import NewDeadLetter, Outcome
from memrelay.worker.run.retries import Delayed
from memrelay.worker.shared import WorkerContext

# The agenda: inputs that are left alone until their time comes, the soonest first.

MOST_WAITING, MOST_BYTES = (
    10_000,
    64 << 20,
)  # beyond which a group takes nothing new before some have left


class DelayQueue:
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


# Cascades that go on in continuations: how far they have spread, who awaits their end, and what it
# is told.


@dataclass(slots=True)
class _Unfinished:
    """A cascade with continuations still to run."""

    open: set[str] = field(default_factory=set)  # keys of the continuations
    total: int = 0  # how many there ever were
    told: dict[str, list[Any]] = field(default_factory=dict)


class ReplyTracker:
    """Gathers the reports of a cascade's parts. Lost with the process: after a crash the rest alone
    is reported."""

    def __init__(self) -> None:
        """Nothing is under way."""
        self._unfinished: dict[str, _Unfinished] = {}

    def expect(self, root: str, key: str) -> int:
        """A continuation of the cascade that began with `root` is still to run; returns how many it
        has had."""
        unfinished = self._unfinished.setdefault(root, _Unfinished())
        unfinished.total += key not in unfinished.open  # one that is tried again is no further one
        unfinished.open.add(key)
        return unfinished.total

    def settle(self, outcomes: Sequence[Outcome]) -> list[dict[str, Any] | None]:
        """Of each outcome the whole report, where the cascade has ended with it and somebody awaits
        that."""
        unfinished, settled = self._unfinished, self._settled
        return [settled(outcome) if outcome.reply or unfinished else None for outcome in outcomes]

    def _settled(self, outcome: Outcome) -> dict[str, Any] | None:
        if outcome.put_off:
            return None
        waiting = self._unfinished.get(f"{outcome.uid}/{outcome.root}")
        if waiting is None:
            return (
                {"id": outcome.root, "settled": True, **outcome.report()} if outcome.reply else None
            )
        waiting.open.discard(outcome.key)
        for name, value in (outcome.report() if outcome.reply else {}).items():
            waiting.told.setdefault(name, []).extend(value)
        if waiting.open:
            return None
        del self._unfinished[f"{outcome.uid}/{outcome.root}"]
        return {"id": outcome.root, "settled": True, **waiting.told} if outcome.reply else None


log = structlog.stdlib.get_logger(__name__)


class Continuations:
    """Those of one group."""

    def __init__(self, todo: deque[Work], patience: BusyRetry, shared: WorkerContext) -> None:
        """What is due is added to `todo`."""
        self._todo, self._patience, self._shared = todo, patience, shared
        self.origins: dict[str, str] = {}  # a continuation's key -> the store that keeps it
        self.agenda, self.settlements = DelayQueue(), ReplyTracker()
        self.may_say_in_public = False  # some of a version of the bundle with public swarms

    async def load(self, stores: Sequence[str], uids: Collection[str]) -> None:
        """Everything that these stores still have to run for these pipelines."""
        for pending, memory_id in await self._patience.in_thread(
            partial(kept_continuations, names=stores, uids=uids)
        ):
            if pending.id not in self.origins:  # else it was put off a moment ago
                await self._schedule(pending, memory_id)

    async def follow(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """Schedules what a batch leads to further, and returns the outcomes of what is given up at
        once."""
        given_up = []
        for outcome in outcomes:
            if (
                self.origins and not outcome.entry
            ):  # a replay has an entry, though its key may be a continuation's
                outcome.origin = self.origins.get(outcome.key, "")
            for pending in outcome.continuations:
                if (refused := await self._schedule(pending, outcome.store)) is not None:
                    given_up.append(refused)
        return given_up

    async def put_off(self, put_off: Sequence[Delayed]) -> None:
        """What its blocks want to be tried again has its time."""
        for one in put_off:
            await self._schedule(one.pending, one.memory_id)
        if put_off:
            self._shared.tally.count_retried(one.pending.pipeline for one in put_off)
            first = put_off[0]
            log.warning(
                "messages_put_off",
                count=len(put_off),
                pipeline=first.pending.pipeline,
                message_id=first.pending.root,
                attempts=first.pending.attempts,
                reason=first.reason[:200],
            )

    async def forget(self, outcomes: Iterable[Outcome]) -> None:
        """What these led to is on the bus: the stores that kept them may forget them, before the
        stores that ran them do."""
        finished: dict[str, list[str]] = {}
        for outcome in outcomes if self.origins else ():
            if origin := self.origins.pop(outcome.key, ""):
                finished.setdefault(origin, []).append(outcome.key)
        for memory_id, keys in finished.items():
            await self._patience.in_thread(partial(forget_continuations, name=memory_id, keys=keys))
            self._shared.checkpoint("continuations forgotten")

    def drop(self, unwanted: Callable[[Input], bool]) -> None:
        """Forgets some of what waits to be tried again; their stores forget it too."""
        for work in self.agenda.drop(unwanted):
            self.origins.pop(work.key, None)

    async def _schedule(self, pending: Pending, memory_id: str) -> Outcome | None:
        """It runs after what is under way, under the version of the bundle that it began with.

        Returns its outcome where it is given up instead: its cascade has become too large.
        """
        limits = self._shared.limits
        plan = await self._patience.attempt(
            partial(self._shared.shelf.version, pending.pipeline, pending.bundle)
        )
        if plan is None:
            log.warning(
                "continuation_without_bundle",
                message_id=pending.id,
                bundle=pending.bundle,
            )
            return None
        self.may_say_in_public = self.may_say_in_public or bool(plan.public)
        self.origins[pending.id] = memory_id
        if (
            self.settlements.expect(f"{pending.pipeline}/{pending.root}", pending.id)
            > limits.max_cascade
        ):
            return _too_many(pending, memory_id, limits.max_cascade)
        work, in_s = from_pending(pending, plan), pending.due / 1000 - time.time()
        if (
            pending.attempts and in_s > 0
        ):  # never for longer than it was meant to be, whatever was done to the clock
            self.agenda.add(work, len(pending.data), min(in_s, limits.longest_pause_s))
        else:
            self._todo.append(work)
        return None


def _too_many(pending: Pending, memory_id: str, most: int) -> Outcome:
    letter = NewDeadLetter(
        str(TooMany(most)),
        pending.swarm,
        pending.data,
        pending.bundle,
        pending.agent,
        hop=str(pending.hop),
    )
    return Outcome(
        pending.id,
        pending.id.partition("/")[2],
        pending.pipeline,
        pending.root,
        pending.reply,
        origin=memory_id,
        letter=letter,
    )

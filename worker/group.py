"""A group: pipelines that share stores, and the one task that does their work in order, a batch at a time."""
import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import structlog

from memory.catalog import Catalog
from memory.errors import StoreBroken, StoreBusy, StoreFenced
from memory.sqlite.pending import Pending
from memory.stores import OpenStores
from memory.threads import DatabaseThread
from pipelines.plan import Plan
from worker.agenda import Agenda
from worker.batch import Batch, Checkpoint
from worker.commits import commits_to_tell
from worker.errors import TooMany
from worker.inputs import Entry, Input, from_pending
from worker.letters import Lettered, look_up, once_each, settle
from worker.limits import WorkerLimits
from worker.outbox import Outbox, tell_refusals
from worker.outcome import Letter, Outcome
from worker.plans import PlanShelf
from worker.retries import PutOff, Retries
from worker.settlement import Settlements
from worker.slot import Slot
from worker.tally import Tally
from worker.tenure import Tenure
from worker.upkeep import (
    close_stores,
    end_recovery,
    forget_continuations,
    guarded,
    kept_continuations,
    stores_below,
    take_over,
    take_over_former,
)
from worker.waiting import wait
from worker.watch import Watch

log = structlog.get_logger()
Result = TypeVar("Result")
PAUSE_S, LONGEST_PAUSE_S = 0.05, 5.0   # before a batch is tried again whose store was busy


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What groups share."""

    catalog: Catalog
    shelf: PlanShelf
    limits: WorkerLimits
    checkpoint: Checkpoint
    tally: Tally
    watch: Watch


class Group:
    """Works for pipelines that share stores, in one database thread, so that they never wait for each other's locks."""

    def __init__(self, plans: Sequence[Plan], thread: DatabaseThread, outbox: Outbox, shared: Surroundings) -> None:
        """`run` does the work; the reader fills `slots`."""
        self.plans, self.key = plans, key_of(plans)
        self._thread, self._outbox, self._shared = thread, outbox, shared
        self._wanted = asyncio.Event()
        self.slots = {plan.uid: Slot(plan, self._wanted) for plan in plans}
        self._todo: deque[Entry | Input] = deque()   # continuations and what a full batch left over: before new entries
        self._origins: dict[str, str] = {}           # continuation's key -> the store that keeps it
        self._settled: dict[str, list[str]] = {}     # store -> inputs that cannot come back
        self._sent: list[asyncio.Future[Any]] = []
        self._unconfirmed: list[Outcome] = []
        self._settlements = Settlements()
        self._agenda = Agenda()
        self._told_to_stop = asyncio.Event()
        self._recovering = True
        self.stores = list(dict.fromkeys(name for plan in plans for name in plan.stores))
        self._former: tuple[str, ...] = ()   # while it recovers: stores of earlier versions

    def waiting(self, uid: str) -> int:
        """How many inputs of a pipeline wait to be tried again."""
        return self._agenda.counts[uid]

    def outbox_bytes(self, uid: str) -> int:
        """What was said for a pipeline and sent, and not confirmed by the server yet."""
        return sum(outcome.size for outcome in self._unconfirmed if outcome.uid == uid)

    @property
    def _stopping(self) -> bool:
        return self._told_to_stop.is_set()

    async def run(self, tenure: Tenure) -> None:
        """Works until `stop`, and ends when everything that was taken has left for the bus. Raises StoreFenced."""
        try:
            await self._in_thread(partial(OpenStores.check_commits, told=tenure.told))
            await self._take_over(tenure)
            await self._recover(tenure)
            self._recovering = False
            for slot in self.slots.values():
                slot.open()
            await self._serve()
        except (StoreBusy, StoreBroken) as error:
            if not self._stopping:
                raise
            log.warning("stopped_with_work_pending", pipelines=list(self.slots), reason=str(error))
        await self._thread.run(partial(close_stores, names=self.stores))

    async def _take_over(self, tenure: Tenure) -> None:
        """No earlier owner may write from now on. The bus may have lost its epochs; those in the stores are surpassed too."""
        former = await self._former_stores()
        while True:
            try:
                await self._in_thread(partial(take_over, names=self.stores, epoch=tenure.epoch))
                self._former = await self._in_thread(partial(take_over_former, names=former, epoch=tenure.epoch))
                self._shared.checkpoint("taken over")
                return
            except StoreFenced as fenced:
                await tenure.surpass(fenced.epoch)

    async def _former_stores(self) -> list[str]:
        """The pipelines' own stores that no version in service works on: what an earlier one has left is known there alone."""
        below = await self._in_thread(partial(stores_below, uids=list(self.slots)))
        if below := [name for name in below if name not in self.stores]:
            others = await self._patiently(self._shared.shelf.active)
            below = [name for name in below if all(name not in plan.stores for plan in others)]
        return below

    async def _recover(self, tenure: Tenure) -> None:
        """First of all: what was in flight, then what the stores still have to run; those of earlier versions too."""
        journal, names = tenure.after_crash, [*self.stores, *self._former]
        while entries := [entry for slot in self.slots.values() for entry in await tenure.claim(slot)]:
            self._shared.checkpoint("claimed")
            self._todo.extend(entries)
            await self._work_off(journal)
        for pending, memory_id in await self._in_thread(partial(kept_continuations, names=names, uids=self.slots)):
            if pending.id not in self._origins:   # else it was put off a moment ago
                await self._schedule(pending, memory_id)
        await self._work_off(journal)
        for memory_id, keys in (await self._in_thread(partial(end_recovery, names=self.stores))).items():
            self._settled[memory_id] = keys
        await self._in_thread(partial(close_stores, names=self._former))
        self._former = ()
        self._shared.checkpoint("recovered")

    async def _work_off(self, journal: bool) -> None:
        while self._todo:
            await self._work(journal)
        await self._confirm()

    async def _serve(self) -> None:
        while True:
            self._todo.extend(self._agenda.take())
            for uid, slot in () if self._agenda.full else self.slots.items():
                if entries := slot.take():
                    self._shared.tally.count_in(uid, len(entries))
                    self._todo.extend(entries)
            if self._todo:
                await self._work(journal=False)
            elif self._unconfirmed and all(future.done() for future in self._sent):
                await self._confirm()
            elif self._stopping and not self._unconfirmed:
                return
            else:
                self._wanted.clear()
                await wait(self._wanted, self._agenda.next_s)

    def stop(self) -> None:
        """Takes nothing more, finishes what it has; what a locked store keeps from being done is left pending."""
        self._told_to_stop.set()
        self._wanted.set()

    async def _work(self, journal: bool) -> None:
        """One batch: run, commit, give up what must be, send. The answer to one MULTI is awaited before the next is sent."""
        limits, now_ms = self._shared.limits, time.time_ns() // 1_000_000
        work, later = once_each(
            [self._todo.popleft() for _ in range(min(len(self._todo), limits.batch * len(self.slots)))])
        lettered = await self._patiently(partial(look_up, self._shared.catalog.letters, work, recovering=self._recovering))
        result = await self._in_thread(Batch(
            work, limits, Retries(limits, self._origins, now_ms), settled=self._settled, gone=lettered.gone, journal=journal,
            former=self._former, checkpoint=self._shared.checkpoint))
        self._todo.extendleft(reversed([*result.left, *later]))
        outcomes = result.outcomes + await self._follow(result.outcomes)
        await self._bury(outcomes, lettered)
        self._shared.tally.count(outcomes, result.took_s, result.duplicates)
        await self._put_off(result.put_off)
        await self._confirm()
        self._shared.checkpoint("before sending")
        self._sent, self._unconfirmed = self._outbox.send(
            outcomes, self._settlements.settle, commits_to_tell(self.plans, result.marks)), outcomes
        for future in self._sent:
            future.add_done_callback(lambda _: self._wanted.set())
        self._shared.checkpoint("sent")

    async def _follow(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Schedules the continuations, and returns the outcomes of those that are given up at once."""
        given_up = []
        for outcome in outcomes:
            if self._origins and not outcome.entry:   # a replay has an entry, though its key may be a continuation's
                outcome.origin = self._origins.get(outcome.key, "")
            for pending in outcome.continuations:
                if (refused := await self._schedule(pending, outcome.store)) is not None:
                    given_up.append(refused)
        return given_up

    async def _put_off(self, put_off: Sequence[PutOff]) -> None:
        """What its blocks want to be tried again has its time."""
        for one in put_off:
            await self._schedule(one.pending, one.memory_id)
        if put_off:
            self._shared.tally.count_retried(one.pending.pipeline for one in put_off)
            first = put_off[0]
            log.warning("messages_put_off", count=len(put_off), pipeline=first.pending.pipeline, message_id=first.pending.root,
                        attempts=first.pending.attempts, reason=first.reason[:200])

    async def _in_thread(self, work: Callable[[OpenStores], Result]) -> Result:
        """Runs work in the database thread."""
        names = [*self.stores, *self._former]
        return await self._patiently(partial(self._thread.run, partial(guarded, work=work, names=names)))

    async def _patiently(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """While a store or the catalogue is busy, again and again; nothing is acknowledged meanwhile."""
        pause_s = PAUSE_S
        while True:
            try:
                result = await attempt()
                if self._shared.tally.resume(self.slots):
                    log.info("pipeline_resumed", pipelines=list(self.slots))
                return result
            except (StoreBusy, StoreBroken) as error:
                if self._stopping:
                    raise
                if self._shared.tally.pause(self.slots, str(error)):
                    log.warning("pipeline_paused", pipelines=list(self.slots), reason=str(error))
            await wait(self._told_to_stop, pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _confirm(self) -> None:
        """Waits until the server has the last batch; what cannot come back then leaves the inbox with the next one."""
        for future in self._sent:
            tell_refusals(await future, list(self.slots))
        self._shared.checkpoint("confirmed")
        outcomes, self._sent, self._unconfirmed = self._unconfirmed, [], []
        if self._origins:
            await self._forget_continuations(outcomes)
        for outcome in outcomes:
            if outcome.store:
                self._settled.setdefault(outcome.store, []).append(outcome.key)

    async def _forget_continuations(self, outcomes: list[Outcome]) -> None:
        """What these led to is on the bus: the stores that kept them may forget them, before the stores that ran them do."""
        finished: dict[str, list[str]] = {}
        for outcome in outcomes:
            if origin := self._origins.pop(outcome.key, ""):
                finished.setdefault(origin, []).append(outcome.key)
        for memory_id, keys in finished.items():
            await self._in_thread(partial(forget_continuations, name=memory_id, keys=keys))
            self._shared.checkpoint("continuations forgotten")

    async def _schedule(self, pending: Pending, memory_id: str) -> Outcome | None:
        """A continuation runs after what is under way, under the version of the bundle that it began with.

        Returns its outcome where it is given up instead: its cascade has become too large.
        """
        limits = self._shared.limits
        plan = await self._patiently(partial(self._shared.shelf.version, pending.pipeline, pending.bundle))
        if plan is None:
            log.warning("continuation_without_bundle", message_id=pending.id, bundle=pending.bundle)
            return None
        self._origins[pending.id] = memory_id
        if self._settlements.expect(f"{pending.pipeline}/{pending.root}", pending.id) > limits.max_cascade:
            ident, error = pending.id.partition("/")[2], str(TooMany(limits.max_cascade))
            letter = Letter(error, pending.swarm, pending.data, pending.bundle, pending.agent, hop=str(pending.hop))
            return Outcome(pending.id, ident, pending.pipeline, pending.root, pending.reply, origin=memory_id, letter=letter)
        work, in_s = from_pending(pending, plan), pending.due / 1000 - time.time()
        if pending.attempts and in_s > 0:   # never for longer than it was meant to be, whatever was done to the clock
            self._agenda.add(work, len(pending.data), min(in_s, limits.longest_pause_s))
        else:
            self._todo.append(work)
        return None

    async def _bury(self, outcomes: list[Outcome], lettered: Lettered) -> None:
        """Dead letters are on disk before anything is acknowledged, and those that were replayed are there no more."""
        if not lettered.there and all(outcome.letter is None for outcome in outcomes):
            return
        self._shared.checkpoint("before burial")
        letters, now_ms = self._shared.catalog.letters, time.time_ns() // 1_000_000
        buried = await self._patiently(partial(settle, letters, outcomes, lettered, now_ms))
        self._shared.checkpoint("buried")
        if buried:
            self._shared.tally.count_dead([dead.pipeline for dead in buried])
            log.warning("messages_dead_lettered", count=len(buried), pipeline=buried[0].pipeline, message_id=buried[0].id,
                        reason=buried[0].error[:200])


def key_of(plans: Iterable[Plan]) -> frozenset[tuple[str, str]]:
    """Which pipelines in which versions: while it stays the same, a group may go on."""
    return frozenset((plan.uid, plan.hash) for plan in plans)

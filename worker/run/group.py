"""A group: pipelines that share stores, and the one task that does their work in order, a batch at
a time."""

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import structlog

from memrelay.bus.lease.fencing import log_refusals
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.memory.threads import DatabaseThread
from memrelay.pipelines.plan import Plan
from memrelay.worker.background.erasure import ErasureTask
from memrelay.worker.background.expiry import ExpiryTask
from memrelay.worker.background.index_merge import IndexMergeTask
from memrelay.worker.background.store_tasks import close_stores
from memrelay.worker.background.vectors import VectorTask
from memrelay.worker.deliver.outbox import Outbox
from memrelay.worker.intake.reader import Slot
from memrelay.worker.ownership.group_lease import GroupLease, commits_to_tell
from memrelay.worker.run.batch import Batch, BatchResult
from memrelay.worker.run.busy_retry import BusyRetry
from memrelay.worker.run.continuations import Continuations
from memrelay.worker.run.dead_letters import Lettered, look_up, once_each, settle
from memrelay.worker.run.embedding_prefetch import EmbeddingPrefetch
from memrelay.worker.run.inputs import Work, place_of
from memrelay.worker.run.outcome import Outcome
from memrelay.worker.run.queries import Queries
from memrelay.worker.run.recovery import Recovery
from memrelay.worker.run.retries import Retries
from memrelay.worker.shared import WorkerContext
from memrelay.worker.waiting import beside, wait

log = structlog.stdlib.get_logger(__name__)
_letter = attrgetter("letter")  # of a batch's outcomes: asked in a loop it costs twice as much


class Group:
    """Works for pipelines that share stores, in one database thread, so that they never wait for
    each other's locks."""

    def __init__(
        self, plans: Sequence[Plan], thread: DatabaseThread, outbox: Outbox, shared: WorkerContext
    ) -> None:
        """`run` does the work; the reader fills `slots`."""
        self.plans, self.key = plans, key_of(plans)
        self._thread, self._outbox, self._shared = thread, outbox, shared
        self._wanted = asyncio.Event()
        self.slots = {plan.uid: Slot(plan, self._wanted) for plan in plans}
        self.stores = list(dict.fromkeys(name for plan in plans for name in plan.every_store))
        self._patience = BusyRetry(thread, self.stores, self.slots, shared.tally)
        self._fan_out, self._says_in_public = outbox.fan_out, any(plan.public for plan in plans)
        named = {name for plan in plans for name in plan.stores}
        homes = [name for name in self.stores if name not in named]
        self._recovery = Recovery(self.stores, homes, self._patience, shared)
        self._todo: deque[Work] = (
            deque()
        )  # continuations and what a full batch left over: before new entries
        self._continuations = Continuations(self._todo, self._patience, shared)
        self.vectors = VectorTask(plans, self.stores, thread, shared)
        self._foresight = EmbeddingPrefetch(
            shared.questions, self._wanted, self.vectors.fingerprint
        )
        self._reaper, self._merger = (
            ExpiryTask(self.stores, thread, shared.limits.history_days),
            IndexMergeTask(self.stores, thread),
        )
        self._eraser = ErasureTask(plans, self.stores, thread, shared, self._continuations.drop)
        self._asks = Queries(
            thread,
            self.stores,
            outbox.tell,
            shared.limits.message_bytes,
            clock=shared.clock,
            database=shared.database,
        )
        self.asked = {
            plan.uid: partial(self._asks.hear, plan) for plan in plans
        }  # by pipeline: takes one question
        self._settled: dict[str, list[str]] = {}  # store -> inputs that cannot come back
        self._leaving: deque[_Sent] = deque()  # the oldest first

    def waiting(self, uid: str) -> int:
        """How many inputs of a pipeline wait to be tried again."""
        return self._continuations.agenda.counts[uid]

    def outbox_bytes(self, uid: str) -> int:
        """What was said for a pipeline and sent, and not confirmed by the server yet."""
        return sum(
            outcome.size
            for sent in self._leaving
            for outcome in sent.outcomes
            if outcome.uid == uid
        )

    async def run(self, tenure: GroupLease) -> None:
        """Works until `stop`, and ends when everything that was taken has left for the bus. Raises
        StoreFenced."""
        try:
            await self._recovery.take_over(tenure)
            await self._recover(tenure)
            self._asks.open()
            for slot in self.slots.values():
                slot.open()
            async with (
                beside(self.vectors.run()),
                beside(self._reaper.run(tenure.control)),
                beside(self._merger.run()),
                beside(self._eraser.run(tenure.control)),
            ):
                await self._serve()
        except (StoreBusy, StoreBroken) as error:
            if not self._patience.over:
                raise
            log.warning(
                "stopped_with_work_pending",
                pipelines=list(self.slots),
                reason=str(error),
            )
        finally:
            self._asks.end()
            self._foresight.close()
        await self._thread.run(partial(close_stores, names=self.stores))

    def stop(self) -> None:
        """Takes nothing more, finishes what it has; what a locked store keeps from being done is
        left pending."""
        self._patience.end()
        self._wanted.set()

    async def _recover(self, tenure: GroupLease) -> None:
        """First of all: what was in flight, and what the stores still have to run, in the order in
        which it all began.

        Stores of earlier versions are asked too.
        """
        await self._continuations.load(tuple(self.stores), self.slots)
        while entries := [
            entry for slot in self.slots.values() for entry in await tenure.undone(slot)
        ]:
            self._shared.checkpoint("found undone")
            await self._foresight.prepare(entries)
            together = sorted(
                [*entries, *self._todo], key=place_of
            )  # an entry before what it has led to
            self._todo.clear()
            self._todo.extend(together)
            await self._work_off(tenure.after_crash)
        await self._work_off(tenure.after_crash)
        self._settled.update(await self._recovery.end())

    async def _work_off(self, journal: bool) -> None:
        while self._todo:
            await self._work(journal)
        await self._confirm(0)

    async def _serve(self) -> None:
        agenda = self._continuations.agenda
        while True:
            self._todo.extend(agenda.take())
            self._todo.extend(self._foresight.take())
            if not agenda.full:
                self._take()
            if self._todo:
                await self._work(journal=False)
            elif self._leaving and self._leaving[0].has_left:
                await self._confirm(len(self._leaving) - 1)
            elif self._patience.over and not self._leaving and not self._foresight.waits:
                return
            else:
                self._wanted.clear()
                await wait(self._wanted, agenda.next_s)

    def _take(self) -> None:
        """What the reader has left."""
        for uid, slot in self.slots.items():
            if entries := slot.take():
                self._shared.tally.count_in(uid, len(entries))
                self._todo.extend(self._foresight.sift(entries))

    async def _work(self, journal: bool) -> None:
        """One batch: run, commit, give up what must be, send. The server may still be at the batch
        before, but at none before
        that."""
        most = self._shared.limits.batch * len(self.slots)
        work, later = once_each([self._todo.popleft() for _ in range(min(len(self._todo), most))])
        lettered = await self._patience.attempt(
            partial(look_up, self._shared.catalog.letters, work, recovering=self._recovery.lasts)
        )
        result = await self._run(work, lettered, journal)
        self._todo.extendleft(reversed([*result.left, *later]))
        outcomes = result.outcomes + await self._continuations.follow(result.outcomes)
        await self._bury(outcomes, lettered)
        self._shared.tally.count(outcomes, result.took_s, result.duplicates)
        await self._continuations.put_off(result.delayed)
        await self._confirm(1)
        public = (
            self._says_in_public or self._recovery.lasts or self._continuations.may_say_in_public
        )
        appends = await self._fan_out.appends(outcomes) if public else []
        self._send(outcomes, commits_to_tell(self.plans, result.marks), appends, result.erased)
        self.vectors.wake(result.embedded, result.imported)
        self._reaper.wake()
        self._merger.wake(result.marks)

    async def _run(self, work: Sequence[Work], lettered: Lettered, journal: bool) -> BatchResult:
        """What a batch comes to, committed."""
        limits, now_ms = self._shared.limits, time.time_ns() // 1_000_000
        return await self._patience.in_thread(
            Batch(
                work,
                limits,
                Retries(limits, self._continuations.origins, now_ms),
                settled=self._settled,
                gone=lettered.gone,
                quarantine=self._shared.quarantine,
                spread=self._shared.spread,
                journal=journal,
                former=self._recovery.former,
                checkpoint=self._shared.checkpoint,
            )
        )

    async def _bury(self, outcomes: list[Outcome], lettered: Lettered) -> None:
        """Dead letters are on disk before anything is acknowledged, and those that were replayed
        are there no more."""
        if not lettered.there and not any(map(_letter, outcomes)):
            return
        self._shared.checkpoint("before burial")
        letters, now_ms = self._shared.catalog.letters, time.time_ns() // 1_000_000
        buried = await self._patience.attempt(partial(settle, letters, outcomes, lettered, now_ms))
        self._shared.checkpoint("buried")
        if buried:
            self._shared.tally.count_dead([dead.pipeline for dead in buried])
            log.warning(
                "messages_dead_lettered",
                count=len(buried),
                pipeline=buried[0].pipeline,
                message_id=buried[0].id,
                reason=buried[0].error[:200],
            )

    def _send(
        self, outcomes: list[Outcome], marks: list[bytes], appends: list[bytes], erased: bool
    ) -> None:
        self._shared.checkpoint("before sending")
        reports = self._continuations.settlements.settle(outcomes)
        futures = self._outbox.send(outcomes, reports, marks, appends)
        self._leaving.append(_Sent(futures, outcomes, erased))
        for future in futures:
            future.add_done_callback(lambda _: self._wanted.set())
        self._shared.checkpoint("sent")

    async def _confirm(self, most: int) -> None:
        """Waits until the server has all but so many of the last batches.

        What cannot come back leaves the inbox with the next batch.
        """
        while len(self._leaving) > most:
            await self._confirm_one(self._leaving[0])

    async def _confirm_one(self, sent: "_Sent") -> None:
        refused = False
        for future in sent.futures:
            refused |= log_refusals(await future, list(self.slots))
        self._shared.checkpoint("confirmed")
        self._leaving.popleft()
        await self._continuations.forget(sent.outcomes)
        for outcome in sent.outcomes:
            if outcome.store and not refused:  # else it may be in the input yet, and come back
                self._settled.setdefault(outcome.store, []).append(outcome.key)
        if sent.erased:
            self._eraser.wake()


class _Sent(NamedTuple):
    """A batch that the server may not have yet."""

    futures: list[asyncio.Future[Any]]
    outcomes: list[Outcome]
    erased: bool  # whether something was erased for good

    @property
    def has_left(self) -> bool:
        """Whether it has."""
        return all(future.done() for future in self.futures)


def key_of(plans: Iterable[Plan]) -> frozenset[tuple[str, str]]:
    """Which pipelines in which versions: while it stays the same, a group may go on."""
    return frozenset((plan.uid, plan.hash) for plan in plans)

"""A group: pipelines that share stores, and the one task that does their work in order, a batch at a time."""
import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from memory.catalog import Catalog, DeadLetter
from memory.errors import StoreBroken, StoreBusy
from memory.sqlite.pending import Pending
from memory.stores import OpenStores
from memory.threads import DatabaseThread
from pipelines.plan import Plan
from worker.batch import Batch, BatchResult, Checkpoint
from worker.inputs import Entry, Input, from_pending
from worker.limits import WorkerLimits
from worker.outbox import Outbox
from worker.outcome import Outcome, Pens
from worker.plans import PlanShelf
from worker.settlement import Settlements
from worker.slot import Slot

log = structlog.get_logger()
Claim = Callable[[Slot], Awaitable[list[Entry]]]   # a pipeline's entries that were delivered and never acknowledged
PAUSE_S, LONGEST_PAUSE_S = 0.05, 5.0   # before a batch is tried again whose store was busy


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What groups share."""

    catalog: Catalog
    shelf: PlanShelf
    limits: WorkerLimits
    checkpoint: Checkpoint


class Group:
    """Works for pipelines that share stores, in one database thread, so that they never wait for each other's locks."""

    def __init__(self, plans: Sequence[Plan], thread: DatabaseThread, outbox: Outbox, shared: Surroundings) -> None:
        """`run` does the work; the reader fills `slots`."""
        self.plans, self._thread, self._outbox, self._shared = plans, thread, outbox, shared
        self._wanted = asyncio.Event()
        self.slots = {plan.uid: Slot(plan, self._wanted) for plan in plans}
        self._todo: deque[Entry | Input] = deque()   # continuations and what a full batch left over: before new entries
        self._origins: dict[str, str] = {}           # continuation's key -> the store that keeps it
        self._settled: dict[str, list[str]] = {}     # store -> inputs that cannot come back
        self._sent: list[asyncio.Future[Any]] = []
        self._unconfirmed: list[Outcome] = []
        self._settlements = Settlements()
        self._pens = Pens(shared.limits.log_length)
        self._stopping = False

    @property
    def key(self) -> frozenset[tuple[str, str]]:
        """Which pipelines in which versions: while it stays the same, the group may go on."""
        return frozenset((plan.uid, plan.hash) for plan in self.plans)

    async def recover(self, claim: Claim, journal: bool) -> None:
        """First of all: what was in flight, then what the stores still have to run. `journal` after a crash."""
        while entries := [entry for slot in self.slots.values() for entry in await claim(slot)]:
            self._todo.extend(entries)
            while self._todo:
                await self._work(journal)
            await self._confirm()
        for pending, memory_id in await self._thread.run(self._kept):
            await self._schedule(pending, memory_id)
        if journal:
            await self._thread.run(self._forget_attempts)

    async def run(self) -> None:
        """Works until `stop`, and ends when everything that was taken has left for the bus."""
        while True:
            for slot in self.slots.values():
                self._todo.extend(slot.take())
            if self._todo:
                await self._work(journal=False)
            elif self._sent and all(future.done() for future in self._sent):
                await self._confirm()
            elif self._stopping and not self._sent:
                return
            else:
                self._wanted.clear()
                await self._wanted.wait()

    def stop(self) -> None:
        """Takes nothing more, finishes what it has."""
        self._stopping = True
        self._wanted.set()

    async def close_stores(self) -> None:
        """Checkpoints and closes the stores, which may belong to another thread from now on."""
        for name in self._stores():
            await self._thread.run(partial(OpenStores.close, memory_id=name))

    async def _work(self, journal: bool) -> None:
        """One batch: run, commit, give up what must be, send. The answer to one MULTI is awaited before the next is sent."""
        work = [self._todo.popleft() for _ in range(min(len(self._todo), self._shared.limits.batch * len(self.slots)))]
        result = await self._run(work, journal)
        self._todo.extendleft(reversed(result.left))
        for outcome in result.outcomes:
            outcome.origin = self._origins.get(outcome.key, "") if self._origins else ""
            for pending in outcome.continuations:
                await self._schedule(pending, outcome.store)
        await self._bury(result.outcomes)
        await self._confirm()
        self._shared.checkpoint("before sending")
        self._sent, self._unconfirmed = self._outbox.send(result.outcomes, self._settlements.settle), result.outcomes
        for future in self._sent:
            future.add_done_callback(lambda _: self._wanted.set())
        self._shared.checkpoint("sent")

    async def _run(self, work: list[Entry | Input], journal: bool) -> BatchResult:
        """Runs the batch in the database thread; while a store is busy, again and again, and nothing is acknowledged."""
        pause_s = PAUSE_S
        while True:
            batch = Batch(work, self._shared.limits, pens=self._pens, settled=self._settled, journal=journal,
                          checkpoint=self._shared.checkpoint)
            try:
                return await self._thread.run(batch)
            except (StoreBusy, StoreBroken) as error:
                log.warning("pipeline_paused", pipelines=list(self.slots), reason=str(error), pause_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _confirm(self) -> None:
        """Waits until the server has the last batch; what cannot come back then leaves the inbox with the next one."""
        for future in self._sent:
            await future
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
            await self._thread.run(partial(_remove_pending, memory_id=memory_id, keys=keys))

    async def _schedule(self, pending: Pending, memory_id: str) -> None:
        """A continuation runs after what is under way, under the version of the bundle that it began with."""
        plan = await self._shared.shelf.version(pending.pipeline, pending.bundle)
        if plan is None:
            log.warning("continuation_without_bundle", message_id=pending.id, bundle=pending.bundle)
            return
        self._origins[pending.id] = memory_id
        if pending.reply:
            self._settlements.expect(f"{pending.pipeline}/{pending.root}", pending.id)
        self._todo.append(from_pending(pending, plan, self._shared.limits.message_bytes))

    async def _bury(self, outcomes: list[Outcome]) -> None:
        """Dead letters are on disk before anything is acknowledged; the same one twice is one."""
        now_ms = time.time_ns() // 1_000_000
        letters = [DeadLetter(outcome.uid, outcome.id, letter.swarm, letter.data, letter.error, letter.bundle, now_ms)
                   for outcome in outcomes if (letter := outcome.letter) is not None]
        if letters:
            await self._shared.catalog.bury(letters)
            log.warning("messages_dead_lettered", count=len(letters), pipeline=letters[0].pipeline, message_id=letters[0].id,
                        reason=letters[0].error[:200])

    def _stores(self) -> list[str]:
        return list(dict.fromkeys(name for plan in self.plans for name in plan.stores))

    def _kept(self, stores: OpenStores) -> list[tuple[Pending, str]]:
        """Every continuation that the stores of these pipelines still have to run."""
        return [(pending, name) for name in self._stores() if stores.exists(name)
                for pending in stores.get(name).pending.all() if pending.pipeline in self.slots]

    def _forget_attempts(self, stores: OpenStores) -> None:
        for name in self._stores():
            if stores.exists(name):
                with stores.get(name).transaction() as store:
                    store.inbox.clear_attempts()


def _remove_pending(stores: OpenStores, memory_id: str, keys: list[str]) -> None:
    with stores.get(memory_id).transaction() as store:
        store.pending.remove(keys)

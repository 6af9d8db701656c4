"""Inputs that a group runs besides its entries: steps in another store, and retries.

A store keeps each of them as a pending row until its outcome is on the bus.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from memrelay.blocks.request_args import EXECUTOR as SENDER
from memrelay.logs import get_logger
from memrelay.memory.engine.inbox import Pending
from memrelay.memory.engine.stores import OpenStores
from memrelay.pipelines.plan import Plan
from memrelay.worker.deferred_calls.open_deferred_calls import OpenDeferredCall, OpenDeferredCalls
from memrelay.worker.deferred_calls.runner import Ended
from memrelay.worker.deferred_calls.stored import (
    has_error,
    make_request_digest,
    name_conversation,
    pack_error,
)
from memrelay.worker.errors import TooManyMessages
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.run.busy_retry import BusyRetry
from memrelay.worker.run.inputs import Input, from_pending, parse_arrival
from memrelay.worker.run.outcome import NewDeadLetter, Outcome
from memrelay.worker.run.retries import Delayed, pause_s
from memrelay.worker.run.waiting_messages import WaitingMessages, find_stray, release
from memrelay.worker.shared import WorkerContext
from memrelay.worker.waiting import system_time_ms

log = get_logger(__name__)
# The weight of a death of the worker in the code of a deferred call. Any other death, such as that
# of a worker that is killed from outside while the call waits for a model, has the weight 1.
IN_CODE = 10


class DelayQueue:
    """Holds inputs until they are due, the soonest first.

    `clock` returns seconds and never goes back, so a change of the system time shifts nothing.
    """

    # Beyond these limits a group takes no new messages.
    MAX_INPUTS = 10_000
    MAX_BYTES = 64 << 20

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # A heap of (due, order of arrival, bytes, input).
        self._heap: list[tuple[float, int, int, Input]] = []
        self._numbers = count()
        self._bytes = 0
        self.counts: Counter[str] = Counter()  # inputs by pipeline

    @property
    def is_full(self) -> bool:
        return len(self._heap) >= self.MAX_INPUTS or self._bytes >= self.MAX_BYTES

    @property
    def next_s(self) -> float | None:
        """Seconds until the next input is due; None if the queue is empty."""
        return max(0.0, self._heap[0][0] - self._clock()) if self._heap else None

    def add(self, work: Input, size: int, in_s: float) -> None:
        """Add an input of `size` bytes that is due in `in_s` seconds."""
        heappush(self._heap, (self._clock() + in_s, next(self._numbers), size, work))
        self._bytes += size
        self.counts[work.plan.uid] += 1

    def drop(self, unwanted: Callable[[Input], bool]) -> list[Input]:
        """Remove and return the unwanted inputs."""
        dropped = [item for item in self._heap if unwanted(item[3])]
        for item in dropped:
            self._heap.remove(item)
            self._bytes -= item[2]
            self.counts[item[3].plan.uid] -= 1
        heapify(self._heap)
        return [item[3] for item in dropped]

    def take(self) -> list[Input]:
        """Remove and return the inputs that are due, in the order of their due times."""
        taken: list[Input] = []
        while self._heap and self._heap[0][0] <= self._clock():
            _, _, size, work = heappop(self._heap)
            self._bytes -= size
            self.counts[work.plan.uid] -= 1
            taken.append(work)
        return taken


@dataclass(slots=True)
class _UnfinishedCascade:
    """A cascade with continuations that have not run.

    `open` has their keys, and `total` counts all that there ever were.
    """

    open: set[str] = field(default_factory=set)
    total: int = 0
    report: dict[str, list[Any]] = field(default_factory=dict)


class ReplyTracker:
    """Collects the reports of the parts of a cascade until it ends.

    It lives in memory. After a crash, the report covers only the rest of the cascade.
    """

    def __init__(self) -> None:
        self._unfinished: dict[str, _UnfinishedCascade] = {}

    def expect(self, root: str, key: str) -> int:
        """Note a continuation of the cascade `root`. Return how many it has had."""
        unfinished = self._unfinished.setdefault(root, _UnfinishedCascade())
        unfinished.total += key not in unfinished.open  # a retry is not a further one
        unfinished.open.add(key)
        return unfinished.total

    def settle(self, outcomes: Sequence[Outcome]) -> list[dict[str, Any] | None]:
        """Return, for each outcome, the whole report if it ends a cascade that a client awaits."""
        unfinished, settled = self._unfinished, self._settle_one
        return [settled(outcome) if outcome.reply or unfinished else None for outcome in outcomes]

    def _settle_one(self, outcome: Outcome) -> dict[str, Any] | None:
        if outcome.delayed:
            return None
        root = f"{outcome.uid}/{outcome.root}"
        waiting = self._unfinished.get(root)
        if waiting is None and not outcome.reply:
            return None
        if waiting is None:
            return {"id": outcome.root, "settled": True, **outcome.build_report()}
        waiting.open.discard(outcome.key)
        for name, value in (outcome.build_report() if outcome.reply else {}).items():
            waiting.report.setdefault(name, []).extend(value)
        if waiting.open:
            return None
        del self._unfinished[root]
        return {"id": outcome.root, "settled": True, **waiting.report} if outcome.reply else None


class Continuations:
    def __init__(
        self,
        retry: BusyRetry,
        shared: WorkerContext,
        wanted: asyncio.Event,
        plans: Sequence[Plan] = (),
    ) -> None:
        self._retry, self._shared = retry, shared
        self._plans = {plan.uid: plan for plan in plans}
        self.deferred_calls = OpenDeferredCalls(shared.deferred_calls, wanted, shared.limits)
        # By key of a continuation: the store with its pending row.
        self.stores: dict[str, str] = {}
        self.delay_queue, self.replies = DelayQueue(), ReplyTracker()
        self.waiting = WaitingMessages()
        self._due: list[Input] = []
        # Whether one of them runs under a bundle version with public swarms.
        self.may_publish_in_public = False

    async def load(
        self, stores: Sequence[str], uids: Collection[str], *, after_crash: bool = False
    ) -> None:
        """Schedule everything that these stores keep for these pipelines.

        Of open deferred calls, the first ones may have ended the worker.
        """
        find = partial(find_pending, names=stores, uids=uids, plans=self._plans)
        found = await self._retry.in_thread(find)
        for memory_id in stores:
            self.waiting.check(memory_id)
        # The others are in the delay queue.
        new = [one for one in found if one[0].id not in self.stores]
        for pending, memory_id in new:
            if not pending.is_deferred_call:
                await self._schedule(pending, memory_id)
        deferred_calls = sorted(
            (one for one in new if one[0].is_deferred_call),
            key=lambda one: parse_arrival(one[0].root),
        )
        crashes = (
            await self._count_crashes(deferred_calls) if after_crash and deferred_calls else {}
        )
        for pending, memory_id in deferred_calls:
            await self._schedule(pending, memory_id, crashes.get(pending.id, 0))

    async def _count_crashes(self, deferred_calls: Sequence[tuple[Pending, str]]) -> dict[str, int]:
        """Return, by id, the weights of the deaths of workers while a deferred call was open.

        A death in the code of the call has the weight IN_CODE, and 1 while it may have waited.
        Deferred calls begin in this order, one of each conversation.
        """
        heads: dict[str, tuple[Pending, str]] = {}
        for pending, memory_id in deferred_calls:
            plan = await self._find_plan(pending)
            if plan is not None:
                name = name_conversation(pending, plan)
                heads.setdefault(name, (pending, memory_id))
        first = [*heads.values()][: self._shared.limits.deferred_calls]
        journal = self._shared.deferred_calls.journal
        died = journal.take_deaths({one.id for one, _ in first}) if journal is not None else set()
        counts: dict[str, int] = {}
        for memory_id in dict.fromkeys(name for _, name in first):
            ids = [one.id for one, name in first if name == memory_id]
            weights = {ident: IN_CODE if ident in died else 1 for ident in ids}
            counts |= await self._retry.in_thread(
                partial(_count_crashes, name=memory_id, weights=weights)
            )
        return counts

    async def _find_plan(self, pending: Pending) -> Plan | None:
        version = partial(self._shared.plans.version, pending.pipeline, pending.bundle)
        return await self._retry.attempt(version)

    def take(self) -> list[Input]:
        """Remove and return the continuations that can run at once."""
        due, self._due = self._due, []
        return due

    async def release(self) -> None:
        """Schedule the messages that have waited because of `wf_flow` and may run now."""
        for memory_id in self.waiting.take_due():
            find = partial(
                release,
                memory_id=memory_id,
                plans=self._plans,
                under_way=self.stores,
                most=self._shared.limits.batch,
                now_ms=system_time_ms(),
            )
            released = await self._retry.in_thread(find)
            self.waiting.note(memory_id, released.next_ms)
            for pending in released.messages:
                await self._schedule(pending, memory_id)

    async def keep_results(self) -> None:
        """Store the results of deferred calls, each in its own transaction, and schedule what
        follows.
        """
        ended = self.deferred_calls.ended
        while ended:
            await self._keep_result(*ended[0])
            ended.popleft()

    async def _keep_result(self, deferred_call: OpenDeferredCall, ended: Ended) -> None:
        pending, memory_id = deferred_call.pending, deferred_call.memory_id
        now_ms = system_time_ms()
        if self.deferred_calls.is_dropped(pending.id):
            self._end_dropped(deferred_call)
            return
        limits, fault = self._shared.limits, ended.transient
        has_failed = fault is not None or bool(ended.reason) or has_error(ended.result)
        self._shared.timings.note_call(
            pending,
            deferred_call.plan,
            self._shared.clock.now_ms,
            ended.took_s,
            is_failed=has_failed,
        )
        attempts = max(1, pending.attempts + fault.counts) if fault is not None else 0
        if fault is not None and attempts <= limits.retries:
            in_s = pause_s(fault, pending.id, attempts, limits)
            pending = pending._replace(due=now_ms + int(1000 * in_s), attempts=attempts)
            await self._retry.in_thread(partial(put_off_call, name=memory_id, pending=pending))
            self._shared.metrics.count_retried([pending.pipeline])
            self.deferred_calls.repeat(deferred_call._replace(pending=pending), in_s)
            return
        subscriber = deferred_call.plan.subscriber(pending.agent)
        if has_failed and subscriber is not None and subscriber.executor == SENDER:
            self._shared.metrics.count_failed_send(pending.pipeline)
        pending = pending._replace(result=ended.result, due=now_ms, attempts=0)
        is_kept = await self._retry.in_thread(
            partial(store_result, name=memory_id, pending=pending, plan=deferred_call.plan)
        )
        self._shared.checkpoint("deferred call result stored")
        if not is_kept or self.deferred_calls.is_dropped(pending.id):  # an erasure deletes the row
            self._end_dropped(deferred_call)
            return
        self.deferred_calls.take_result(deferred_call)
        await self._schedule(pending, memory_id)

    def _end_dropped(self, deferred_call: OpenDeferredCall) -> None:
        self.deferred_calls.take_result(deferred_call)
        self.stores.pop(deferred_call.pending.id, None)
        self.deferred_calls.finish(deferred_call.pending.id)

    async def follow(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """Schedule the continuations of a batch. Return outcomes of those that fail at once."""
        failed = []
        for outcome in outcomes:
            # A replay comes in an entry, even if its key is that of a continuation.
            if self.stores and not outcome.replay_entry:
                outcome.pending_store = self.stores.get(outcome.key, "")
            for pending in outcome.continuations:
                if pending.flow is not None:
                    self.waiting.check(outcome.store)
                elif self._expect(pending) <= self._shared.limits.max_cascade:
                    await self._schedule(pending, outcome.store)
                else:
                    self.stores[pending.id] = outcome.store
                    failed.append(_exceed_limit(pending, outcome.store, self._shared.limits))
            if outcome.pending_store:
                self.deferred_calls.finish(outcome.key)
        return failed

    async def delay(self, delayed: Sequence[Delayed]) -> None:
        """Schedule the retries of a batch."""
        for one in delayed:
            await self._schedule(one.pending, one.memory_id)
        if delayed:
            self._shared.metrics.count_retried(one.pending.pipeline for one in delayed)
            first = delayed[0]
            log.warning(
                "messages_delayed",
                count=len(delayed),
                pipeline=first.pending.pipeline,
                message_id=first.pending.root,
                attempts=first.pending.attempts,
                reason=first.reason[:200],
            )

    async def forget(self, outcomes: Iterable[Outcome]) -> None:
        """Delete the pending rows of outcomes that are on the bus. For dead letters, results of
        deferred calls stay.

        This happens before the stores that ran them delete the inbox rows.
        """
        finished: dict[str, list[Outcome]] = {}
        for outcome in outcomes if self.stores else ():
            if memory_id := self.stores.pop(outcome.key, ""):
                finished.setdefault(memory_id, []).append(outcome)
        for memory_id, ended in finished.items():
            await self._retry.in_thread(
                partial(delete_pending, name=memory_id, outcomes=ended, now_ms=system_time_ms())
            )
            self._shared.checkpoint("continuations forgotten")
        if finished:
            self.waiting.check_again(finished)

    def drop(self, holds: Callable[[bytes], bool]) -> None:
        """Forget retries and deferred calls with a text that `holds` accepts, and cancel those that
        run. The caller deletes their pending rows.
        """
        for work in self.delay_queue.drop(lambda work: any(map(holds, work.texts))):
            self.stores.pop(work.key, None)
        pending = [one.pending for one in self.deferred_calls.open]
        unwanted = {one.id for one in pending if any(map(holds, one.texts))}
        self.deferred_calls.drop(unwanted)
        for key in unwanted:
            self.stores.pop(key, None)

    def _expect(self, pending: Pending) -> int:
        """Note a continuation. Return how many its cascade has had."""
        return self.replies.expect(f"{pending.pipeline}/{pending.root}", pending.id)

    async def _schedule(self, pending: Pending, memory_id: str, crashes: int = 0) -> None:
        """Schedule an input or deferred call under the bundle version with which it began.

        `crashes` are the weights of the deaths that the deferred call may have caused.
        """
        limits = self._shared.limits
        plan = await self._find_plan(pending)
        if plan is None:
            log.warning("continuation_without_bundle", message_id=pending.id, bundle=pending.bundle)
            return
        self.may_publish_in_public = self.may_publish_in_public or bool(plan.public)
        self.stores[pending.id] = memory_id
        self._expect(pending)
        if pending.is_deferred_call:
            deferred_call = OpenDeferredCall(pending, memory_id, plan, crashes > IN_CODE)
            if crashes <= limits.attempts * IN_CODE:
                self.deferred_calls.add(deferred_call)
                return
            times = limits.attempts
            reason = f"the worker ended more than {times} times while it executed this request"
            self.deferred_calls.hold(pending, plan)
            self.deferred_calls.ended.append(
                (deferred_call, Ended(pack_error(reason, "worker_ended")))
            )
            return
        if pending.request is not None:
            self.deferred_calls.hold(pending, plan)
        work, in_s = from_pending(pending, plan), pending.due / 1000 - time.time()
        if pending.attempts and in_s > 0:
            # A changed clock never makes a pause longer than the maximum.
            in_s = min(in_s, limits.longest_pause_s)
            self.delay_queue.add(work, len(pending.data), in_s)
        else:
            self._due.append(work)


def _exceed_limit(pending: Pending, memory_id: str, limits: WorkerLimits) -> Outcome:
    dead_letter = NewDeadLetter(
        str(TooManyMessages(limits.max_cascade)),
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
        pending_store=memory_id,
        dead_letter=dead_letter,
    )


def find_pending(
    stores: OpenStores, names: Sequence[str], uids: Collection[str], plans: Mapping[str, Plan]
) -> list[tuple[Pending, str]]:
    """Return each pending row of these pipelines with its store.

    Messages that wait because of `wf_flow` stay there, except for those that no longer have to.
    """
    return [
        (pending, name)
        for name in names
        if stores.exists(name)
        for pending in (*stores.get(name).pending.all(), *find_stray(stores, name, plans))
        if pending.pipeline in uids
    ]


def put_off_call(stores: OpenStores, name: str, pending: Pending) -> None:
    """Store the attempts of a deferred call that is repeated later."""
    with stores.get(name).transaction() as store:
        store.pending.put_off(pending)


def store_result(stores: OpenStores, name: str, pending: Pending, plan: Plan) -> bool:
    """Store the result of a deferred call in its pending row. Return whether the row exists.

    `plan` is the version that asked for it.
    """
    with stores.get(name).transaction() as store:
        store.inbox.clear_deferred_call_attempts(pending.id)
        is_kept = store.pending.keep_result(pending)
        hooks = store.records.path.answered
        if hooks and is_kept and (subscriber := plan.subscriber(pending.agent)) is not None:
            digest = make_request_digest(pending, subscriber)
            for hook in hooks:
                hook(pending, plan, digest)
        return is_kept


def _count_crashes(stores: OpenStores, name: str, weights: Mapping[str, int]) -> dict[str, int]:
    with stores.get(name).transaction() as store:
        return store.inbox.count_deferred_call_attempts(weights)


def delete_pending(stores: OpenStores, name: str, outcomes: Sequence[Outcome], now_ms: int) -> None:
    """Delete the pending rows of continuations that have ended. The results of deferred calls stay
    for dead letters.
    """
    failed = [outcome.key for outcome in outcomes if outcome.dead_letter is not None]
    with stores.get(name).transaction() as store:
        store.pending.remove(one.key for one in outcomes if one.dead_letter is None)
        if failed:
            store.pending.park(failed, now_ms)

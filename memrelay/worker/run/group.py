"""A group: pipelines that share stores, and the task that runs their inputs batch by batch."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.lease.fencing import log_refusals
from memrelay.logs import get_logger
from memrelay.memory.engine.models import load
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.engine.threads import DatabaseThread
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.pipelines.plan import Plan
from memrelay.worker.background.deliveries import DeliveryTask
from memrelay.worker.background.erasure import ErasureTask
from memrelay.worker.background.expiry import ExpiryTask, Retention
from memrelay.worker.background.index_merge import IndexMergeTask
from memrelay.worker.background.vectors import VectorTask
from memrelay.worker.deliver.outbox import Outbox, pack_signals, publish_signals
from memrelay.worker.deliver.settled import SettledInputs
from memrelay.worker.intake.reader import Slot, read_unfinished
from memrelay.worker.metrics import Latency
from memrelay.worker.ownership.group_lease import GroupLease, pack_marks
from memrelay.worker.run.batch import Batch, BatchContext, BatchResult
from memrelay.worker.run.busy_retry import BusyRetry
from memrelay.worker.run.calls import MAX_ANSWER_MESSAGES
from memrelay.worker.run.continuations import Continuations
from memrelay.worker.run.crash_isolation import AttemptJournal
from memrelay.worker.run.dead_letters import (
    KnownDeadLetters,
    find_dead_letters,
    split_repeats,
    store_dead_letters,
)
from memrelay.worker.run.embedding_prefetch import EmbeddingPrefetch
from memrelay.worker.run.inputs import Entry, Work, get_arrival
from memrelay.worker.run.outcome import Outcome
from memrelay.worker.run.queries import Queries
from memrelay.worker.run.recovery import Recovery, RecoveryTurns, close_stores
from memrelay.worker.run.retries import Retries
from memrelay.worker.run.store_features import (
    ENDPOINTS,
    compose_stores,
    find_inputs_days,
    find_receipts_days,
    open_declared,
)
from memrelay.worker.shared import WorkerContext
from memrelay.worker.timings import BatchTiming
from memrelay.worker.waiting import in_background, wait

# Entries that are read again together.
ENTRIES_TOGETHER = 256
if TYPE_CHECKING:
    from memrelay.worker.run.past_queries import PastQueries

log = get_logger(__name__)
# Loaded with the first query with `as_of`.
PAST_QUERIES = "memrelay.worker.run.past_queries:PastQueries"
# Time without a batch after which a group closes its stores.
REST_AFTER_S = 6.0
# In a loop over outcomes, a direct attribute access costs twice as much.
_dead_letter, _key = attrgetter("dead_letter"), attrgetter("key")


class Overflow:
    """Knows which entries of a group were read and did not run. They are not kept in memory."""

    def __init__(self) -> None:
        # By pipeline: the ID of the last such entry.
        self._last: dict[str, bytes] = {}

    def __bool__(self) -> bool:
        return bool(self._last)

    def take_calls(self, entries: list[Entry]) -> list[Entry]:
        """Return the calls. The messages stay in the input, in their order."""
        for entry in entries:
            if not entry.field(b"op"):
                self._last[entry.plan.uid] = (entry.replay_entry or entry.id).encode()
        return [entry for entry in entries if entry.field(b"op")]

    async def read_again(
        self, control: ReconnectingConnection, slots: Mapping[str, Slot]
    ) -> dict[str, list[Entry]]:
        """Return the next messages of each pipeline that has any.

        No entry may be under way: finished ones are deleted from the input. Raises BusUnavailable.
        """
        entries_by_pipeline = {}
        for uid, last in list(self._last.items()):
            entries = await read_unfinished(control, slots[uid], last, ENTRIES_TOGETHER)
            if entries:
                entries_by_pipeline[uid] = entries
            else:
                del self._last[uid]
        return entries_by_pipeline


@dataclass(frozen=True, slots=True)
class GroupParts:
    """The parts of a group. `wake_event` wakes its task."""

    thread: DatabaseThread
    outbox: Outbox
    wake_event: asyncio.Event
    slots: dict[str, Slot]
    retry: BusyRetry
    recovery: Recovery
    continuations: Continuations
    prefetch: EmbeddingPrefetch
    queries: Queries
    vectors: VectorTask
    expiry: ExpiryTask
    index_merge: IndexMergeTask
    erasure: ErasureTask
    deliveries: DeliveryTask


class Group:
    """Runs the inputs of pipelines that share stores, in one database thread.

    So they never wait for each other's locks. The reader fills `slots`; `run` does the work.
    """

    def __init__(
        self, plans: Sequence[Plan], stores: Sequence[str], parts: GroupParts, shared: WorkerContext
    ) -> None:
        self.plans, self.key, self.stores = plans, make_group_key(plans), stores
        self.slots, self.vectors = parts.slots, parts.vectors
        self._parts, self._shared = parts, shared
        self._wake_event = parts.wake_event
        self._retry, self._recovery = parts.retry, parts.recovery
        self._continuations, self._prefetch = parts.continuations, parts.prefetch
        self._endpoint_stores = parts.deliveries.stores
        self._publishes_in_public = any(plan.public for plan in plans)
        # The next inputs, from all queues (`_serve`). Those that a full batch left over come first.
        self._todo: deque[Work] = deque()
        self._overflow = Overflow()
        self._settled = SettledInputs(shared.replication)
        self._batch_context = BatchContext(
            shared.limits,
            self._settled,
            shared.isolation,
            shared.public_limit,
            shared.secrets,
            shared.checkpoint,
        )
        # Whether the bus has a valid idle checkpoint.
        self._is_at_rest = False
        # Batches that the server may not have yet, the oldest first.
        self._leaving: deque[_SentBatch] = deque()

    @property
    def query_handlers(self) -> dict[str, Callable[[bytes], None]]:
        """By pipeline: the function that takes one read-only call."""
        return {plan.uid: partial(self._parts.queries.accept, plan) for plan in self.plans}

    @property
    def is_recovering(self) -> bool:
        """Whether the group takes no new entries yet."""
        return self._recovery.is_running

    def count_delayed(self, uid: str) -> int:
        """Return how many inputs of a pipeline wait for a retry."""
        return self._continuations.delay_queue.counts[uid]

    def count_deferred_calls(self, uid: str) -> int:
        """Return how many deferred calls of a pipeline are open."""
        return self._continuations.deferred_calls.count(uid)

    def has_deferred_call(self, uid: str, alias: str) -> bool:
        return self._continuations.deferred_calls.has_agent(uid, alias)

    def describe_deliveries(self, plan: Plan) -> dict[str, Any] | None:
        """Return the figures of a pipeline's deliveries; None without endpoints."""
        return self._parts.deliveries.describe(plan)

    def count_changes(self, plan: Plan) -> int:
        """Return how many changes of records were committed to a pipeline's stores."""
        return sum(self._batch_context.changes.get(name, 0) for name in plan.all_stores)

    def count_searches(self, uid: str) -> int:
        """Return how many calls of a pipeline searched."""
        return self._parts.queries.searches[uid]

    @property
    def has_open_erasure(self) -> bool:
        """Whether an erasure is not yet complete."""
        return not self._parts.erasure.is_idle

    @property
    def erasure_fault(self) -> str:
        """Return why an erasure cannot be completed now, "" if none waits."""
        return self._parts.erasure.fault

    def outbox_bytes(self, uid: str) -> int:
        """Return the bytes of a pipeline's messages that the server has not confirmed."""
        return sum(
            outcome.size
            for sent in self._leaving
            for outcome in sent.outcomes
            if outcome.uid == uid
        )

    async def run(self, lease: GroupLease, turns: RecoveryTurns) -> None:
        """Work until `stop`, and return when everything that was taken is on the bus.

        Raises StoreFenced.
        """
        parts, is_idle = self._parts, False
        try:
            if not await self._begin_at_rest(lease):
                await self._recover_in_turn(lease, turns)
            if self.is_recovering:  # stopped while it waited for its turn
                return
            parts.queries.open()
            for slot in self.slots.values():
                slot.open()
            async with (
                in_background(parts.vectors.run()),
                in_background(parts.expiry.run()),
                in_background(parts.index_merge.run()),
                in_background(parts.erasure.run(lease.control)),
                in_background(parts.deliveries.run()),
            ):
                await self._serve(lease)
                is_idle = self._is_idle
        except (StoreBusy, StoreBroken) as error:
            if not self._retry.has_stopped:
                raise
            log.warning("stopped_with_work_pending", pipelines=list(self.slots), reason=str(error))
        finally:
            parts.queries.end()
            self._shared.rehearsals.stop(self.slots, "the worker released the pipeline")
            await parts.queries.write_receipts()
            self._prefetch.close()
            self._continuations.deferred_calls.leave()
        await parts.thread.run(partial(close_stores, names=self.stores))
        if is_idle:
            await self._write_idle_checkpoint(lease)

    def stop(self, deferred_calls_s: float = 0.0) -> None:
        """Take nothing more and finish what was taken. Work on a locked store stays pending.

        Wait at most `deferred_calls_s` for the deferred calls that run. The others run in the next
        group.
        """
        self._continuations.deferred_calls.stop(deferred_calls_s)
        self._retry.stop()
        self._wake_event.set()

    async def _recover_in_turn(self, lease: GroupLease, turns: RecoveryTurns) -> None:
        async with turns.take():
            if self._retry.has_stopped:
                return
            await self._recovery.take_over(lease)
            await self._recover(lease)

    async def _recover(self, lease: GroupLease) -> None:
        """Run what was in flight, and what the stores have pending, in the order of arrival."""
        journal = AttemptJournal() if lease.after_crash else None
        if self._recovery.has_pending:
            await self._continuations.load(
                self._retry.stores, self.slots, after_crash=lease.after_crash
            )
        while entries := [
            entry for slot in self.slots.values() for entry in await lease.read_unfinished(slot)
        ]:
            self._shared.checkpoint("found undone")
            await self._prefetch.prepare(entries)
            # An entry comes before its continuations.
            together = [*entries, *self._todo, *self._continuations.take()]
            self._todo = deque(sorted(together, key=get_arrival))
            await self._work_off(journal)
        await self._work_off(journal)
        for memory_id, keys in (await self._recovery.end()).items():
            self._settled.add(memory_id, keys)

    async def _work_off(self, journal: AttemptJournal | None) -> None:
        await self._take_continuations()
        while self._todo:
            await self._work(journal)
            await self._take_continuations()
        await self._confirm(0)

    async def _take_continuations(self) -> None:
        if self._continuations.deferred_calls.ended:
            await self._continuations.keep_results()
        self._todo.extend(self._continuations.take())

    async def _begin_at_rest(self, lease: GroupLease) -> bool:
        """Skip the recovery if idle checkpoints prove that there is nothing to recover.

        The first message opens the stores, which fences earlier owners.
        """
        checkpoint = lease.find_idle_checkpoint()
        if checkpoint is None or checkpoint.embedder != self._parts.vectors.embedder_name:
            return False
        later = partial(_take_over_later, plans=self.plans, names=self.stores, epoch=lease.epoch)
        has_endpoints = await self._parts.thread.run(later)
        self._parts.vectors.rest(checkpoint.wanted, checkpoint.fingerprints)
        self._parts.expiry.rest(checkpoint.due_ms)
        self._parts.index_merge.rest()
        self._parts.erasure.rest()
        self._parts.deliveries.rest(has_endpoints=has_endpoints)
        self._recovery.skip()
        self._is_at_rest = True
        return True

    @property
    def _is_idle(self) -> bool:
        """Whether nothing is under way, waits, or is to be done in the background."""
        parts = self._parts
        return not (
            self._todo
            or self._leaving
            or self._overflow
            or self._continuations.stores
            or self._continuations.waiting.next_ms
            or self._prefetch.has_calls
        ) and all(
            task.is_idle
            for task in (
                parts.vectors,
                parts.expiry,
                parts.index_merge,
                parts.erasure,
                parts.deliveries,
            )
        )

    async def _rest(self, lease: GroupLease) -> None:
        """Close the stores of an idle group, so that its next owner need not open them."""
        if self._is_at_rest or not self._is_idle:
            return
        await self._parts.thread.run(partial(close_stores, names=self.stores))
        await self._write_idle_checkpoint(lease)

    async def _write_idle_checkpoint(self, lease: GroupLease) -> None:
        vectors, expiry = self._parts.vectors, self._parts.expiry
        self._is_at_rest = await lease.write_rest(expiry.due_ms, vectors.state)
        self._shared.checkpoint("at rest")

    async def _serve(self, lease: GroupLease) -> None:
        delay_queue = self._continuations.delay_queue
        deferred_calls = self._continuations.deferred_calls
        waiting = self._continuations.waiting
        waiting.pause()
        while True:
            # The queues in their order: waiting messages, continuations, due retries, calls with
            # their vectors, and new entries while there is room. If too many inputs wait, only
            # calls are new.
            if waiting.next_ms and not self._retry.has_stopped:
                await self._continuations.release()
            await self._take_continuations()
            self._todo.extend(delay_queue.take())
            self._todo.extend(self._prefetch.take())
            is_full = delay_queue.is_full or deferred_calls.is_full
            may_read = not (is_full or self._prefetch.has_calls or self._retry.has_stopped)
            has_room = len(self._todo) < self._shared.limits.batch
            if has_room and (is_full or not self._overflow):
                self._take_entries(is_full)
            if self._todo:
                await self._work()
            elif self._leaving and self._leaving[0].has_left:
                await self._confirm(len(self._leaving) - 1)
            elif self._overflow and may_read:
                await self._read_again(lease)
            elif self._may_end:
                return
            else:
                self._wake_event.clear()
                left_s = deferred_calls.left_s
                pause_s = delay_queue.next_s if left_s is None else left_s
                if waiting.next_ms:
                    pause_s = waiting.limit_pause_s(pause_s)
                if pause_s is None and not self._is_at_rest:
                    pause_s = REST_AFTER_S
                if not await wait(self._wake_event, pause_s):
                    await self._rest(lease)

    @property
    def _may_end(self) -> bool:
        """Whether the group is stopped and nothing is under way that it must await."""
        return (
            self._retry.has_stopped
            and not self._leaving
            and not self._prefetch.has_calls
            and self._continuations.deferred_calls.left_s is None
        )

    def _take_entries(self, is_full: bool) -> None:
        for uid, slot in self.slots.items():
            entries = slot.take()
            self._take_in(uid, self._overflow.take_calls(entries) if is_full else entries)

    def _take_in(self, uid: str, entries: list[Entry]) -> None:
        if entries:
            self._shared.metrics.count_in(uid, len(entries))
            self._todo.extend(self._prefetch.sift(entries))

    async def _read_again(self, lease: GroupLease) -> None:
        """Take messages that came while too many inputs waited. A stopped group leaves them."""
        await self._confirm(0)
        for uid, entries in (await self._overflow.read_again(lease.control, self.slots)).items():
            self._take_in(uid, entries)

    async def _work(self, journal: AttemptJournal | None = None) -> None:
        """Run, commit and send one batch. At most the batch before is unconfirmed meanwhile."""
        self._is_at_rest = False
        shared, continuations = self._shared, self._continuations
        count = min(len(self._todo), shared.limits.batch * len(self.slots))
        taken = [self._todo.popleft() for _ in range(count)]
        work, later = split_repeats(taken)
        if work is not taken:  # it has replays, which need the parked rows of the failed runs
            await self._confirm(0)
        dead_letters = await self._retry.attempt(
            partial(
                find_dead_letters,
                shared.catalog.dead_letters,
                work,
                recovering=self._recovery.is_running,
            )
        )
        result = await self._retry.in_thread(self._make_batch(work, dead_letters, journal).run)
        committed_s = time.monotonic()
        shared.metrics.sample_commits(result.outcomes, committed_ms := shared.clock.now_ms)
        # One entry per batch, without a Python call.
        timing = BatchTiming(
            f" {' '.join(map(_key, result.outcomes))} ",
            len(result.outcomes),
            committed_ms,
            result.took_s,
            result.commit_s,
            result.began_s,
            result.laps,
        )
        timings = shared.timings
        (timings.large if result.laps is None else timings.small).append(timing)
        self._todo.extendleft(reversed([*result.left, *later]))
        self._prefetch.postpone(result.awaiting)
        outcomes = result.outcomes + await continuations.follow(result.outcomes)
        await self._store_dead_letters(outcomes, dead_letters)
        shared.metrics.count(outcomes, result.took_s, result.duplicates)
        await continuations.delay(result.delayed)
        await self._confirm(1)
        await self._send(outcomes, result, committed_s, timing)
        self._parts.vectors.wake(result.embedded, result.imported)
        self._parts.expiry.wake()
        self._parts.index_merge.wake(result.marks)
        if result.changes and self._parts.deliveries.has_endpoints:
            self._parts.deliveries.note_changes()
        if not self._endpoint_stores.isdisjoint(result.marks):
            await self._parts.deliveries.configure()

    def _make_batch(
        self, work: Sequence[Work], dead_letters: KnownDeadLetters, journal: AttemptJournal | None
    ) -> Batch:
        now_ms = time.time_ns() // 1_000_000
        return self._shared.batch(
            work,
            self._batch_context,
            Retries(self._shared.limits, self._continuations.stores, now_ms),
            gone=dead_letters.gone,
            journal=journal,
            former=self._recovery.former,
            may_wait=not self._recovery.is_running,
        )

    async def _store_dead_letters(
        self, outcomes: list[Outcome], dead_letters: KnownDeadLetters
    ) -> None:
        """Bring dead letters to disk before anything is acknowledged."""
        if not dead_letters.existing and not any(map(_dead_letter, outcomes)):
            return
        self._shared.checkpoint("before dead letters")
        catalog, now_ms = self._shared.catalog.dead_letters, time.time_ns() // 1_000_000
        content_bytes = self._shared.limits.dead_letter_bytes
        added = await self._retry.attempt(
            partial(store_dead_letters, catalog, outcomes, dead_letters, now_ms, content_bytes)
        )
        self._shared.checkpoint("dead letters stored")
        if added and self._parts.deliveries.has_endpoints:
            self._parts.deliveries.note_dead_letters()
        if added:
            self._shared.metrics.count_dead([one.pipeline for one in added])
            log.warning(
                "messages_dead_lettered",
                count=len(added),
                pipeline=added[0].pipeline,
                message_id=added[0].id,
                reason=added[0].error[:200],
            )

    async def _send(
        self,
        outcomes: list[Outcome],
        result: BatchResult,
        committed_s: float,
        timing: BatchTiming,
    ) -> None:
        latency = self._shared.metrics.publish_latency
        may_be_public = (
            self._publishes_in_public
            or self._recovery.is_running
            or self._continuations.may_publish_in_public
        )
        outbox = self._parts.outbox
        appends = await outbox.public_fanout.pack_appends(outcomes) if may_be_public else []
        self._shared.checkpoint("before sending")
        reports = self._continuations.replies.settle(outcomes)
        marks = pack_marks(self.plans, result.marks)
        signals = pack_signals(self.plans, result.changes)
        futures = outbox.send(outcomes, reports, marks + signals, appends)
        self._leaving.append(_SentBatch(futures, outcomes, result.erased))
        for future in futures:
            future.add_done_callback(lambda _: self._wake_event.set())
            future.add_done_callback(partial(_note_published, timing, latency, committed_s))
        self._shared.checkpoint("sent")

    async def _confirm(self, most: int) -> None:
        """Wait until the server has confirmed all but `most` batches."""
        while len(self._leaving) > most:
            await self._confirm_one(self._leaving[0])

    async def _confirm_one(self, sent: "_SentBatch") -> None:
        """Wait for one batch. The next batch deletes the inbox rows that cannot come back."""
        refused = False
        for future in sent.futures:
            refused |= log_refusals(await future, list(self.slots))
        self._shared.checkpoint("confirmed")
        self._leaving.popleft()
        await self._continuations.forget(sent.outcomes)
        # After a refusal the entries may still be in the input.
        if not refused:
            self._settled.add_outcomes(sent.outcomes)
        if sent.erased:
            self._parts.erasure.wake()


def _note_published(
    timing: BatchTiming, latency: Latency, committed_s: float, _: asyncio.Future[Any]
) -> None:
    timing.published_s = time.monotonic() - committed_s
    latency.observe(timing.published_s)


class _SentBatch(NamedTuple):
    """A batch that the server may not have yet."""

    futures: list[asyncio.Future[Any]]
    outcomes: list[Outcome]
    erased: bool  # whether an operation erased records

    @property
    def has_left(self) -> bool:
        return all(future.done() for future in self.futures)


def create_group(
    plans: Sequence[Plan], thread: DatabaseThread, outbox: Outbox, shared: WorkerContext
) -> Group:
    """Return a group with all its parts. Its stores belong to `thread` from `run` on."""
    stores = tuple(dict.fromkeys(name for plan in plans for name in plan.all_stores))
    wake_event = asyncio.Event()
    slots = {plan.uid: Slot(plan, wake_event) for plan in plans}
    retry = BusyRetry(thread, stores, slots, shared.metrics)
    continuations = Continuations(retry, shared, wake_event, plans)
    vectors = VectorTask(plans, stores, thread, shared)
    announce = partial(publish_signals, plans, outbox)
    queries = shared.queries(
        thread,
        stores,
        outbox.publish,
        shared.limits.message_bytes,
        clock=shared.clock,
        database=shared.database,
        load_past=partial(_load_past, thread, outbox, shared),
        find_rehearsals=partial(shared.rehearsals.find, shared, asyncio.get_running_loop()),
        find_timings=shared.timings.find,
    )
    drop_copies = partial(_drop_copies, queries, shared)
    # Built-in stores that no agent of the pipelines names.
    unnamed = [name for name in stores if all(name not in plan.stores for plan in plans)]
    days = Retention(shared.limits.history_days, find_inputs_days(plans), find_receipts_days(plans))
    parts = GroupParts(
        thread,
        outbox,
        wake_event,
        slots,
        retry,
        Recovery(stores, unnamed, retry, shared),
        continuations,
        EmbeddingPrefetch(shared.questions, wake_event, vectors.fingerprint),
        queries,
        vectors,
        ExpiryTask(stores, thread, days, shared.clock, announce),
        IndexMergeTask(stores, thread, vectors.wake),
        ErasureTask(
            plans,
            stores,
            thread,
            shared,
            continuations.drop,
            drop_snapshots=drop_copies,
            write_receipts=queries.write_receipts,
        ),
        DeliveryTask(plans, thread, shared),
    )
    return Group(plans, stores, parts, shared)


def _load_past(thread: DatabaseThread, outbox: Outbox, shared: WorkerContext) -> "PastQueries":
    answer_bytes = MAX_ANSWER_MESSAGES * shared.limits.message_bytes
    past: PastQueries = load(PAST_QUERIES)(thread, outbox.publish, answer_bytes, shared)
    return past


async def _drop_copies(queries: Queries, shared: WorkerContext) -> None:
    """Remove the stores as they were, because something was erased."""
    await shared.rehearsals.stop_all("records were erased meanwhile")
    await queries.drop_snapshots()


def _take_over_later(
    stores: OpenStores, plans: Sequence[Plan], names: Sequence[str], epoch: int
) -> bool:
    """Return whether a pipeline has endpoints."""
    compose_stores(plans, stores)
    for name in names:
        stores.take_over_later(name, epoch)
    open_declared(plans, stores)
    return any(stores.exists(plan.built_in_stores[ENDPOINTS]) for plan in plans)


def make_group_key(plans: Iterable[Plan]) -> frozenset[tuple[str, str]]:
    """Return the pipelines and their versions. A group goes on while they stay the same."""
    return frozenset((plan.uid, plan.hash) for plan in plans)

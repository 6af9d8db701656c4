"""The owner of a pipeline under test: the part of a worker that a crash takes away."""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from msgspec import Raw

from memrelay.blocks.async_call import OperationFailed
from memrelay.bus.client.url import Address
from memrelay.bus.replication import Replication
from memrelay.bus.request import UNAVAILABLE, NewCall, Question
from memrelay.memory.engine.inbox import Pending
from memrelay.memory.engine.models import load
from memrelay.memory.engine.retention import delete_expired
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.errors import Refused
from memrelay.memory.operations import known_operation, no_other_store
from memrelay.pipelines.plan import Plan
from memrelay.pipelines.secret_references import SecretResolver
from memrelay.testing.calls import CallExecutor
from memrelay.testing.local_bus import LocalBus, VirtualClock
from memrelay.worker.deferred_calls.runner import Ended
from memrelay.worker.deferred_calls.stored import name_conversation
from memrelay.worker.deliver.settled import SettledInputs
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.run.batch import Batch, BatchContext
from memrelay.worker.run.calls import MAX_ANSWER_MESSAGES, resolve_store
from memrelay.worker.run.continuations import (
    ReplyTracker,
    delete_pending,
    find_pending,
    put_off_call,
    store_result,
)
from memrelay.worker.run.crash_isolation import AttemptJournal, CrashIsolation
from memrelay.worker.run.inputs import Work, from_pending, get_arrival
from memrelay.worker.run.outcome import Outcome, PublicMessageLimit
from memrelay.worker.run.recovery import clear_attempts, recover_models
from memrelay.worker.run.retries import Retries, pause_s
from memrelay.worker.run.store_features import (
    compose_stores,
    find_inputs_days,
    find_receipts_days,
)
from memrelay.worker.run.waiting_messages import release
from memrelay.worker.without_bus.batches import run_batches
from memrelay.worker.without_bus.reads import answer_read

if TYPE_CHECKING:
    from memrelay.embedded.past import EmbeddedPast
    from memrelay.worker.without_bus.vectors import Vectors

MOST_OPEN = 64
# Loaded with the first call that has `as_of`.
PAST = "memrelay.embedded.past:EmbeddedPast"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an owner shares with the next one. `checkpoint` may end it at any of its steps."""

    plan: Plan
    folder: Path
    bus: LocalBus
    clock: VirtualClock
    # None without an embedder.
    vectors: "Vectors | None"
    calls: CallExecutor
    secrets: SecretResolver
    limits: WorkerLimits
    checkpoint: Callable[[str], None]


@dataclass(slots=True)
class OpenCall:
    """A deferred call without a result, and the store that keeps it."""

    pending: Pending
    memory_id: str
    conversation: str
    due_ms: int = 0


@dataclass(slots=True)
class _Queues:
    """What waits for an owner."""

    todo: deque[Work] = field(default_factory=deque)
    # Retries: a heap of (due, number, input).
    delayed: list[tuple[int, int, Work]] = field(default_factory=list)
    calls: list[OpenCall] = field(default_factory=list)
    # By conversation: the deferred call that is open, or whose continuation has not ended.
    holders: dict[str, str] = field(default_factory=dict)
    # By store: when its next message with `wf_flow` may run.
    flow_ms: dict[str, int] = field(default_factory=dict)


class Owner:
    """Runs the inputs of one pipeline on its stores, as a group of a worker does.

    `epoch` fences earlier owners. Raises StoreFenced if a store has a higher one.
    """

    batch_class = Batch

    def __init__(self, surroundings: Surroundings, epoch: int) -> None:
        self._about, plan = surroundings, surroundings.plan
        self._plan, self._bus, self._clock = plan, surroundings.bus, surroundings.clock
        self._limits, self._checkpoint = surroundings.limits, surroundings.checkpoint
        vectors = surroundings.vectors
        meaning = None if vectors is None else vectors.resources
        self._stores = OpenStores(surroundings.folder, MOST_OPEN, meaning)
        self._stores.clock = self._clock
        self._settled = SettledInputs(Replication.of(Address()))
        self._public_limit = PublicMessageLimit()
        self._context = BatchContext(
            self._limits,
            self._settled,
            CrashIsolation(),
            self._public_limit,
            surroundings.secrets,
            self._checkpoint,
            self._clock,
        )
        self._replies, self._numbers = ReplyTracker(), count()
        self._queues = _Queues()
        # By key of a continuation: the store with its pending row.
        self._kept: dict[str, str] = {}
        # By store: its snapshots, which `_opened` removes.
        self._past: dict[str, EmbeddedPast] = {}
        self._opened = ExitStack()
        compose_stores([plan], self._stores)
        self._stores.prepare = partial(_prepare, self._stores.prepare)
        for name in plan.all_stores:
            self._stores.take_over(name, epoch)

    def close(self) -> None:
        """Close the stores. Open transactions are rolled back."""
        self._opened.close()
        self._stores.close_all()

    def recover(self) -> None:
        """Run what was under way when the owner before this one ended."""
        names, plans = self._plan.all_stores, {self._plan.uid: self._plan}
        for pending, memory_id in find_pending(self._stores, names, [*plans], plans):
            self._schedule(pending, memory_id)
        self._queues.flow_ms = dict.fromkeys(filter(self._stores.exists, names), 1)
        self._bus.give_back()
        together = [*self._bus.take(), *self._queues.todo]
        self._queues.todo = deque(sorted(together, key=get_arrival))
        journal = AttemptJournal()
        while self._queues.todo:
            self._work(journal)
        for memory_id, keys in clear_attempts(self._stores, names).items():
            self._settled.add(memory_id, keys)
        recover_models(self._stores, names, [*plans], self._clock())

    async def run(self) -> None:
        """Run everything that can run at this time."""
        while True:
            self.work_off()
            call = self._find_call()
            if call is not None:
                await self._execute(call)
            elif not (self._release() or self._take_delayed()):
                return

    def work_off(self) -> None:
        """Run the inputs that have arrived, and their continuations."""
        while True:
            self._queues.todo.extend(self._bus.take())
            if not self._queues.todo:
                return
            self._work()

    @property
    def next_ms(self) -> int | None:
        """Return when something is due that waits, Unix ms."""
        queues = self._queues
        dues = [due for due, _, _ in queues.delayed[:1]] + [*queues.flow_ms.values()]
        first: dict[str, int] = {}
        for call in queues.calls:
            first.setdefault(call.conversation, call.due_ms)
        dues += [due for name, due in first.items() if name not in queues.holders]
        return min(dues, default=None)

    def delete_expired(self) -> None:
        """Delete what has expired, as the worker does in the background."""
        days, plans = self._limits.history_days, [self._plan]
        inputs_days, receipts_days = find_inputs_days(plans), find_receipts_days(plans)
        for name in filter(self._stores.exists, self._plan.all_stores):
            delete = partial(
                delete_expired,
                self._stores.get(name),
                self._clock(),
                days,
                inputs_days.get(name),
                receipts_days.get(name),
            )
            while delete().gone:
                pass

    def answer(self, call: NewCall) -> dict[str, Any]:
        """Return the answer to a call: {"output": ...} or {"error": {"code", "detail"}}.

        Raises OperationFailed.
        """
        if not call.mutates:
            return self._answer_read(call)
        channel = self._bus.make_channel()
        self._bus.append(call.as_entry(channel))
        self.work_off()
        return self.take_answer(channel, call.op)

    def take_answer(self, channel: str, name: str) -> dict[str, Any]:
        """Return the answer to a call that has ended. Raises OperationFailed."""
        report = self._bus.take_report(channel) or {}
        if "answer" not in report:
            reason = "; ".join(report.get("errors", ())) or "it waits for a retry"
            raise OperationFailed(UNAVAILABLE, f"{name} has no answer: {reason}")
        answer: dict[str, Any] = orjson.loads(orjson.dumps(report["answer"]))
        return answer

    def _answer_read(self, call: NewCall) -> dict[str, Any]:
        question = Question(call.op, "", Raw(call.data), call.store, call.actor)
        answer_bytes = MAX_ANSWER_MESSAGES * self._limits.message_bytes
        if not call.as_of:
            return answer_read(self._stores, self._plan, question, self._clock(), answer_bytes)
        try:
            stores, at_ms = self._find_past(call)
        except Refused as error:
            return {"error": {"code": error.code, "detail": str(error)}}
        return answer_read(stores, self._plan, question, at_ms, answer_bytes)

    def _find_past(self, call: NewCall) -> tuple["_OneStore", int]:
        """Return the store of a call as it was, and the time. Raises Refused."""
        operation = known_operation(call.op)
        if not operation.takes_as_of:
            raise Refused(f"{call.op} has no `as_of`")
        name = resolve_store(self._plan, call.store, operation)
        if name not in self._past:
            make: Callable[..., EmbeddedPast] = load(PAST)
            self._past[name] = make(self._stores.get(name), self._opened.callback)
        past = self._past[name].find(call.as_of)
        return _OneStore(name, past.store), past.at_ms

    def _work(self, journal: AttemptJournal | None = None) -> None:
        """Run, commit and publish the next inputs."""
        todo = self._queues.todo
        work = [todo.popleft() for _ in range(min(len(todo), self._limits.batch))]
        retries = Retries(self._limits, self._kept, self._clock())
        make = partial(
            self.batch_class,
            context=self._context,
            retries=retries,
            journal=journal,
            may_wait=False,
        )
        result = run_batches(make, self._stores, work)
        outcomes = result.outcomes
        for outcome in outcomes:
            outcome.pending_store = self._kept.get(outcome.key, "")
            for pending in outcome.continuations:
                if pending.flow is not None:
                    self._queues.flow_ms[outcome.store] = 1
                else:
                    self._schedule(pending, outcome.store)
        for delayed in result.delayed:
            self._schedule(delayed.pending, delayed.memory_id)
        self._bus.add_dead_letters(outcomes)
        self._checkpoint("before sending")
        reports = self._replies.settle(outcomes)
        self._bus.send(outcomes, reports, self._public_limit)
        self._checkpoint("sent")
        self._forget(outcomes)
        if result.erased:
            for past in self._past.values():
                past.drop_all()
        self._settled.add_outcomes(outcomes)
        if self._about.vectors is not None:
            for name in result.marks:
                wanted = name in result.embedded or name in self._plan.embedded_stores
                self._about.vectors.fill(self._stores.get(name), wanted=wanted)

    def _forget(self, outcomes: Iterable[Outcome]) -> None:
        """Delete the pending rows of continuations that have ended."""
        finished: dict[str, list[Outcome]] = {}
        for outcome in outcomes:
            if memory_id := self._kept.pop(outcome.key, ""):
                finished.setdefault(memory_id, []).append(outcome)
        for memory_id, ended in finished.items():
            delete_pending(self._stores, memory_id, ended, self._clock())
            if memory_id in self._queues.flow_ms:
                self._queues.flow_ms[memory_id] = 1
        keys = {one.key for ended in finished.values() for one in ended}
        holders = self._queues.holders
        self._queues.holders = {name: key for name, key in holders.items() if key not in keys}

    def _schedule(self, pending: Pending, memory_id: str) -> None:
        """Let a continuation or a retry run when it is due."""
        queues = self._queues
        self._kept[pending.id] = memory_id
        self._replies.expect(f"{pending.pipeline}/{pending.root}", pending.id)
        if pending.is_deferred_call:
            conversation = name_conversation(pending, self._plan)
            queues.calls.append(OpenCall(pending, memory_id, conversation))
            return
        work = from_pending(pending, self._plan)
        if pending.attempts:
            heappush(queues.delayed, (pending.due, next(self._numbers), work))
        else:
            queues.todo.append(work)

    def _take_delayed(self) -> bool:
        """Take the retries that are due. Return whether there are any."""
        delayed, todo = self._queues.delayed, self._queues.todo
        while delayed and delayed[0][0] <= self._clock():
            todo.append(heappop(delayed)[2])
        return bool(todo)

    def _release(self) -> bool:
        """Take the messages that `wf_flow` lets run now. Return whether there are any."""
        now_ms, flow_ms = self._clock(), self._queues.flow_ms
        for memory_id in [name for name, due in flow_ms.items() if due <= now_ms]:
            released = release(
                self._stores,
                memory_id,
                {self._plan.uid: self._plan},
                self._kept,
                most=self._limits.batch,
                now_ms=now_ms,
            )
            del flow_ms[memory_id]
            if released.next_ms:
                flow_ms[memory_id] = released.next_ms
            for pending in released.messages:
                self._schedule(pending, memory_id)
        return bool(self._queues.todo)

    def _find_call(self) -> OpenCall | None:
        """Return the next deferred call that is due. Calls of a conversation are in order."""
        now_ms, waiting = self._clock(), set[str]()
        for call in self._queues.calls:
            is_next = call.conversation not in waiting
            waiting.add(call.conversation)
            if is_next and call.conversation not in self._queues.holders and call.due_ms <= now_ms:
                return call
        return None

    async def _execute(self, call: OpenCall) -> None:
        """Execute a deferred call and store its result."""
        pending = call.pending
        self._checkpoint("before call")
        ended = await self._about.calls.execute(pending, self.answer)
        self._checkpoint("call ended")
        if self._repeat(call, ended):
            return
        pending = pending._replace(result=ended.result, due=self._clock(), attempts=0)
        is_kept = store_result(self._stores, call.memory_id, pending, self._plan)
        self._queues.calls.remove(call)
        if is_kept:
            self._queues.holders[call.conversation] = pending.id
            self._queues.todo.append(from_pending(pending, self._plan))

    def _repeat(self, call: OpenCall, ended: Ended) -> bool:
        """Put a deferred call off that raised Transient. Return False if it has ended."""
        fault, limits, pending = ended.transient, self._limits, call.pending
        if fault is None:
            return False
        attempts = max(1, pending.attempts + fault.counts)
        if attempts > limits.retries:
            return False
        call.due_ms = self._clock() + int(1000 * pause_s(fault, pending.id, attempts, limits))
        call.pending = pending._replace(due=call.due_ms, attempts=attempts)
        put_off_call(self._stores, call.memory_id, call.pending)
        return True


class _OneStore(NamedTuple):
    """The only store that a call with `as_of` reads."""

    memory_id: str
    store: Store

    def get(self, memory_id: str) -> Store:
        """Return the store. Raises Refused for another one."""
        if memory_id != self.memory_id:
            no_other_store(memory_id)
        return self.store

    def exists(self, memory_id: str) -> bool:
        """Return whether it is that store."""
        return memory_id == self.memory_id


def _prepare(declare: Callable[[Store], None] | None, store: Store) -> None:
    """Do not wait for the disk: the files end with the test, and a crash is one of the process."""
    store.connection.pragma("synchronous", "OFF")
    if declare is not None:
        declare(store)

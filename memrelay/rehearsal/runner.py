"""Runs inputs with the worker's batch code on copies of the stores. Nothing leaves the process."""

import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import orjson

from memrelay.bus.client.url import Address
from memrelay.bus.codec import decode_kept
from memrelay.bus.keys import PublicSwarm
from memrelay.bus.replication import Replication
from memrelay.memory.engine.features import INPUTS, POLICIES
from memrelay.memory.engine.inbox import RETRY_SUFFIX, Pending
from memrelay.memory.engine.models import load
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.models.inputs.packing import KeptInput
from memrelay.memory.operations import find_operation
from memrelay.pipelines.plan import Plan
from memrelay.rehearsal.deliveries import Delivered, Deliveries
from memrelay.rehearsal.results import KeptResults
from memrelay.worker.deferred_calls.stored import parse_request
from memrelay.worker.deliver.settled import SettledInputs
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.run.batch import Batch, BatchContext, BatchResult
from memrelay.worker.run.crash_isolation import CrashIsolation
from memrelay.worker.run.inputs import Entry, Work, from_pending, get_arrival
from memrelay.worker.run.outcome import Outcome, PublicMessageLimit
from memrelay.worker.run.retries import Retries
from memrelay.worker.run.store_features import compose_stores
from memrelay.worker.without_bus.batches import run_batches
from memrelay.worker.without_bus.vectors import Vectors

# Stores that are open at once.
MOST_OPEN = 64
# Bytes of what a side publishes, and what it notes besides. More ends the rehearsal.
MAX_NOTED_BYTES = 128 << 20
NOTE_BYTES = 200
WEBHOOK_BLOCK = "webhook_send"
# Counts the verdicts of policies.
POLICY_TABLE = "memrelay.memory.models.policies.table:PolicyTable"


class Waiting(NamedTuple):
    """Inputs to run. `store` keeps them if they are one continuation. `has_result` if they follow
    from the kept result of a deferred call.
    """

    work: Sequence[Work]
    store: str = ""
    has_result: bool = False


class Flooded(Exception):
    """A side publishes more than a rehearsal keeps."""


class Published(NamedTuple):
    """A message that the pipeline would have published. `type` is its media type."""

    swarm: str
    is_public: bool
    sender: str
    text: str
    type: str


class Failed(NamedTuple):
    """A dead letter. `agent` is the alias of its only receiver, "" for a message to a swarm."""

    agent: str
    error: str


class Requested(NamedTuple):
    """A deferred call that the pipeline would have made. `request` is JSON."""

    agent: str
    block: str
    request: str


class Decision(NamedTuple):
    """The answer to a call: its `action`, such as created, or the code and text of its error."""

    operation: str
    action: str


@dataclass(slots=True)
class Noted:
    """The effects of one input besides its records."""

    messages: list[Published] = field(default_factory=list)
    dead_letters: list[Failed] = field(default_factory=list)
    requests: list[Requested] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    deliveries: list[Delivered] = field(default_factory=list)


class DatedPlan(NamedTuple):
    """A plan that serves from `from_ms` on, Unix ms.

    If it `has_steps`, a message may continue in another store, later, or after a request. `blocks`
    are the names of its blocks.
    """

    from_ms: int
    plan: Plan
    has_steps: bool
    blocks: frozenset[str]


class RehearsedBatch(Batch):
    """A batch that knows the last change of each input."""

    # By key of the input: its store, and the number of the store's last change after it.
    changes: dict[str, tuple[str, int]]

    def _run_one(self, one: Work) -> Outcome:
        outcome = super()._run_one(one)
        if outcome.store:
            store = self._stores.get(outcome.store)
            self.changes[one.key] = outcome.store, store.records.versions.last_change
        return outcome


class ChangeLog:
    """Knows which input has led to each change of a store. Inputs are known by their number."""

    def __init__(self) -> None:
        self._last: list[int] = []
        self._inputs: list[int] = []
        self._have_result: list[bool] = []

    def note(self, last_change: int, number: int, *, has_result: bool) -> None:
        """Note the number of a store's last change after an input. `has_result` if the changes
        follow from the kept result of a deferred call.
        """
        if not self._last or self._last[-1] < last_change:
            self._last.append(last_change)
            self._inputs.append(number)
            self._have_result.append(has_result)

    def find(self, change: int) -> int | None:
        """Return the input that led to a change, None if it is not known."""
        at = bisect_left(self._last, change)
        return self._inputs[at] if at < len(self._last) else None

    def find_result(self, change: int) -> int | None:
        """Return the input of the deferred call whose kept result led to a change, None if none
        did.
        """
        at = bisect_left(self._last, change)
        return self._inputs[at] if at < len(self._last) and self._have_result[at] else None


class Side:
    """One run of all inputs: with the bundles of the time, or with the candidate.

    `folder` has the stores. `plans` are in the order of their time. Deferred calls get the kept
    `results`. After `run`, `noted` has what each input has led to, by its number, and `unrehearsed`
    why inputs did not run to their end.
    """

    def __init__(
        self,
        folder: Path,
        plans: Sequence[DatedPlan],
        limits: WorkerLimits,
        vectors: Vectors,
        results: Sequence[KeptInput] = (),
    ) -> None:
        self._plans, self._limits, self._vectors = plans, limits, vectors
        self._results = KeptResults(results)
        self._settled = SettledInputs(Replication.of(Address()))
        self._context = BatchContext(limits, self._settled, CrashIsolation(), PublicMessageLimit())
        self.stores = OpenStores(folder, MOST_OPEN, vectors.resources)
        self.names = tuple(dict.fromkeys(name for one in plans for name in one.plan.all_stores))
        # By store: the last change before the run, and the inputs that led to later ones.
        self.first_changes: dict[str, int] = {}
        self.changes: dict[str, ChangeLog] = {}
        # How often each policy had acted before the run, by its name and action.
        self._first_verdicts: Counter[tuple[str, str]] = Counter()
        self.noted: dict[int, Noted] = {}
        self.unrehearsed: dict[int, str] = {}
        self.count = 0
        self.took_s = 0.0
        self._noted_bytes = 0
        self._current: DatedPlan | None = None
        self._deliveries = Deliveries(self.stores)
        self._batch_changes: dict[str, tuple[str, int]] = {}

    def run(self, inputs: Iterable[KeptInput]) -> None:
        """Run all inputs, each to its end. Raises Flooded."""
        began = time.perf_counter()
        if any(one.plan.embedded_stores for one in self._plans):
            self._vectors.load()
        for name in self.names:
            if self.stores.exists(name):
                self._prepare(name)
                is_embedded = any(name in one.plan.embedded_stores for one in self._plans)
                self._vectors.fill(self.stores.get(name), wanted=is_embedded)
        together = list[Entry]()
        for kept in inputs:
            dated = self._find_plan(kept)
            if self._current is not dated or not self._may_join(dated, together):
                self._run_together(together)
                together = []
            if self._current is not dated:
                self._current = dated
                self._compose(dated.plan)
            entry = Entry(kept.id, dated.plan, kept.fields)
            if agent := self._results.find_caller(kept):
                self._run_together(together)
                together = []
                self._run_operation(entry, agent, is_made=self._results.is_taken(kept))
            else:
                together.append(entry)
        self._run_together(together)
        self.took_s = time.perf_counter() - began

    def close(self) -> None:
        """Close the stores."""
        self.stores.close_all()

    def _prepare(self, name: str) -> None:
        store = self.stores.get(name)
        # After a crash, the copy is removed.
        store.connection.pragma("synchronous", "OFF")
        self.first_changes[name] = store.records.versions.last_change
        self.changes[name] = ChangeLog()
        self._first_verdicts += _count_verdicts(store)

    def count_verdicts(self) -> Counter[tuple[str, str]]:
        """Return how often each policy has acted in the run, by its name and action."""
        counts: Counter[tuple[str, str]] = Counter()
        for name in self.names:
            if self.stores.exists(name):
                counts += _count_verdicts(self.stores.get(name))
        return counts - self._first_verdicts

    def _find_plan(self, kept: KeptInput) -> DatedPlan:
        """Return the plan under which an input ran. If that is not known, it is the plan of its
        time; the first one serves all earlier times too.
        """
        found = self._plans[0]
        for one in self._plans:
            if kept.bundle and one.plan.hash.startswith(kept.bundle):
                return one
            if one.from_ms <= kept.ms:
                found = one
        return found

    def _compose(self, plan: Plan) -> None:
        """Give the stores the features of a plan. The copies keep no inputs."""
        compose_stores([plan], self.stores, without=(INPUTS,))
        self._deliveries.use(plan)

    def _may_join(self, dated: DatedPlan, together: Sequence[Entry]) -> bool:
        """Return whether a further input may run in the transaction of earlier ones, because
        nothing has to happen between them.
        """
        is_alone = dated.has_steps or dated.plan.embedded_stores or self._deliveries.has_endpoints
        return not is_alone and len(together) < self._limits.batch and not _embeds(together[-1:])

    def _run_operation(self, entry: Entry, agent: str, *, is_made: bool) -> None:
        """Run an operation that a deferred call has called, unless this side did not make the
        call.
        """
        if is_made:
            self._run_together([entry], has_result=True)
            return
        reason = f"it is an operation of a request of {agent}, which was not made"
        self.unrehearsed[self.count] = reason
        self.count += 1

    def _run_together(self, entries: Sequence[Entry], *, has_result: bool = False) -> None:
        """Run inputs and all their continuations. There are no continuations of several inputs."""
        if not entries:
            return
        if _embeds(entries):
            self._vectors.load()
        numbers = {entry.key: self.count + at for at, entry in enumerate(entries)}
        queue = deque([Waiting(entries, has_result=has_result)])
        done = list[Outcome]()
        while queue:
            waiting = queue.popleft()
            work, memory_id, _ = waiting
            result = self._run_batch(work, memory_id)
            by_key = {one.key: one for one in work}
            for key in by_key:
                numbers.setdefault(key, self.count)
            self._note_changes(result, numbers, has_result=waiting.has_result)
            for outcome in result.outcomes:
                number = numbers[outcome.key]
                self._note(number, by_key[outcome.key], outcome)
                self._follow(number, outcome, queue, has_result=waiting.has_result)
            for delayed in result.delayed:
                number = numbers[delayed.pending.id.removesuffix(RETRY_SUFFIX)]
                self.unrehearsed[number] = "a block asked to be called again later"
                self._forget(delayed.memory_id, delayed.pending.id)
            if memory_id:
                self._forget(memory_id, work[0].key)
            done += result.outcomes
        self._settled.add_outcomes(done)
        for delivered in self._deliveries.find():
            self._notes_of(self.count).deliveries.append(delivered)
            self._count_bytes(0)
        self.count += len(entries)

    def _run_batch(self, work: Sequence[Work], memory_id: str) -> BatchResult:
        """Run inputs, or one continuation that `memory_id` keeps, until all have an outcome."""
        now_ms = get_arrival(work[0])[0]
        pending_stores = {work[0].key: memory_id} if memory_id else {}
        retries = Retries(self._limits, pending_stores, now_ms)

        def make_batch(work: Sequence[Work]) -> Batch:
            batch = RehearsedBatch(work, self._context, retries, may_wait=False)
            batch.changes = self._batch_changes
            return batch

        return run_batches(make_batch, self.stores, work)

    def _note_changes(
        self, result: BatchResult, numbers: Mapping[str, int], *, has_result: bool
    ) -> None:
        for key, (name, last_change) in self._batch_changes.items():
            if name not in self.changes:
                self.first_changes[name] = 0
                self.changes[name] = ChangeLog()
            self.changes[name].note(last_change, numbers[key], has_result=has_result)
        self._batch_changes.clear()
        plan = self._current.plan if self._current is not None else None
        for name in result.marks:
            wanted = name in result.embedded or (plan is not None and name in plan.embedded_stores)
            self._vectors.fill(self.stores.get(name), wanted=wanted)

    def _follow(
        self, number: int, outcome: Outcome, queue: deque[Waiting], *, has_result: bool
    ) -> None:
        """Add the continuations of an outcome that can run to the queue."""
        assert self._current is not None
        plan = self._current.plan
        for pending in outcome.continuations:
            is_full = len(queue) >= self._limits.max_cascade
            known = self._prepare_next(number, pending, is_full=is_full)
            if known is None:
                self._forget(outcome.store, pending.id)
                continue
            follows = has_result or pending.is_deferred_call
            queue.append(Waiting([from_pending(known, plan)], outcome.store, follows))

    def _prepare_next(self, number: int, pending: Pending, *, is_full: bool) -> Pending | None:
        """Return a continuation to run, with the kept result if it is a deferred call. None if it
        waits for what a rehearsal does not have, or if too many wait.
        """
        assert self._current is not None
        if pending.flow is not None:
            self.unrehearsed[number] = f"{pending.agent} lets messages wait (wf_flow)"
            return None
        if is_full:
            self._notes_of(number).dead_letters.append(Failed(pending.agent, "too many messages"))
            return None
        if pending.is_deferred_call:
            return self._find_result(number, pending, self._current.plan)
        return pending

    def _find_result(self, number: int, pending: Pending, plan: Plan) -> Pending | None:
        """Note a deferred call. Return it with its kept result, None if there is none."""
        subscriber = plan.subscriber(pending.agent)
        assert subscriber is not None  # it has made the call
        request = orjson.dumps(parse_request(pending)).decode()
        noted = Requested(pending.agent, subscriber.block, request)
        self._notes_of(number).requests.append(noted)
        self._count_bytes(len(request))
        result = self._results.take(pending, subscriber)
        if result is not None:
            return pending._replace(result=result)
        self.unrehearsed[number] = (
            f"{pending.agent} waits for the answer to a request ({subscriber.block}), which is not "
            "kept"
        )
        return None

    def _forget(self, memory_id: str, key: str) -> None:
        """Delete the pending row of a continuation."""
        with self.stores.get(memory_id).transaction() as store:
            store.pending.remove([key])

    def _notes_of(self, number: int) -> Noted:
        return self.noted.setdefault(number, Noted())

    def _note(self, number: int, work: Work, outcome: Outcome) -> None:
        """Note what an input or a continuation has published, answered or failed with."""
        if outcome.dead_letter is not None:
            letter = outcome.dead_letter
            self._notes_of(number).dead_letters.append(Failed(letter.agent, letter.error))
            self._count_bytes(len(letter.error))
        if outcome.answer and isinstance(work, Entry):
            action = _find_action(outcome.answer)
            if action:
                self._notes_of(number).decisions.append(Decision(work.text(b"op"), action))
        is_in_swarm = isinstance(work, Entry) and not (work.field(b"agent") or work.field(b"op"))
        for swarm, data in outcome.messages[is_in_swarm:]:
            message, is_public = decode_kept(data), isinstance(swarm, PublicSwarm)
            name = swarm.name if isinstance(swarm, PublicSwarm) else str(swarm)
            self._notes_of(number).messages.append(
                Published(name, is_public, message.sender, message.text, message.type)
            )
            self._count_bytes(len(data))

    def _count_bytes(self, nbytes: int) -> None:
        self._noted_bytes += nbytes + NOTE_BYTES
        if self._noted_bytes > MAX_NOTED_BYTES:
            raise Flooded(
                f"the messages and dead letters have more than {MAX_NOTED_BYTES >> 20} MiB after "
                f"{self.count} inputs; shorten the period, or look for a loop in the bundle"
            )


def _embeds(entries: Sequence[Entry]) -> bool:
    """Return whether an input calls an operation that needs the vector of its text."""
    operations = [find_operation(name) for one in entries if (name := one.text(b"op"))]
    return any(operation is not None and operation.embeds for operation in operations)


def _count_verdicts(store: Store) -> Counter[tuple[str, str]]:
    if not store.has_feature(POLICIES):
        return Counter()
    counts = store.table(load(POLICY_TABLE)).counts()
    return Counter({(policy, action): total for policy, action, total, _ in counts})


def _find_action(answer: bytes) -> str:
    """Return what a call has decided: its `action`, or its error; "" for any other answer."""
    parsed = orjson.loads(answer)
    if "error" in parsed:
        return f"{parsed['error']['code']}: {parsed['error']['detail']}"
    output = parsed.get("output")
    if not isinstance(output, dict):
        return ""
    if "dropped" in output or "review" in output:
        return "dropped" if "dropped" in output else "held for review"
    action = output.get("action")
    return action if isinstance(action, str) else ""

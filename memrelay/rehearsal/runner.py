"""Runs inputs with the worker's batch code on copies of the stores. Nothing leaves the process."""

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import orjson

from memrelay.bus.client.url import Address
from memrelay.bus.codec import decode_kept
from memrelay.bus.keys import PublicSwarm
from memrelay.bus.replication import Replication
from memrelay.memory.engine.inbox import Pending
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.models.inputs.packing import KeptInput
from memrelay.memory.operations import find_operation
from memrelay.pipelines.plan import Plan
from memrelay.rehearsal.vectors import Vectors
from memrelay.worker.deferred_calls.stored import parse_request
from memrelay.worker.deliver.settled import SettledInputs
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.run.batch import Batch, BatchContext, BatchResult
from memrelay.worker.run.crash_isolation import CrashIsolation
from memrelay.worker.run.inputs import Entry, Work, from_pending
from memrelay.worker.run.outcome import Outcome, PublicMessageLimit
from memrelay.worker.run.retries import Retries
from memrelay.worker.run.store_features import find_features

# Stores that are open at once.
MOST_OPEN = 64
# Bytes of what a side publishes, and what it notes besides. More ends the rehearsal.
MAX_NOTED_BYTES = 128 << 20
NOTE_BYTES = 200
WEBHOOK_BLOCK = "webhook_send"


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
    """A deferred call that was not made. `request` is JSON."""

    agent: str
    block: str
    request: str


class Decision(NamedTuple):
    """The answer to a call: its `action`, such as created, or the code and text of its error."""

    operation: str
    action: str


@dataclass(slots=True)
class Noted:
    """What one input has led to, besides its records."""

    messages: list[Published] = field(default_factory=list)
    dead_letters: list[Failed] = field(default_factory=list)
    requests: list[Requested] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)


class DatedPlan(NamedTuple):
    """A plan that serves from `from_ms` on, Unix ms."""

    from_ms: int
    plan: Plan


class ChangeLog:
    """Knows which input has led to each change of a store. Inputs are known by their number."""

    def __init__(self) -> None:
        self._last: list[int] = []
        self._inputs: list[int] = []

    def note(self, last_change: int, number: int) -> None:
        """Note the number of a store's last change after an input."""
        if not self._last or self._last[-1] < last_change:
            self._last.append(last_change)
            self._inputs.append(number)

    def find(self, change: int) -> int | None:
        """Return the input that led to a change, None if it is not known."""
        at = bisect_left(self._last, change)
        return self._inputs[at] if at < len(self._last) else None


class Side:
    """One run of all inputs: with the bundles of the time, or with the candidate.

    `folder` has the stores. `plans` are in the order of their time. After `run`, `noted` has what
    each input has led to, by its number, and `unrehearsed` why inputs did not run to their end.
    """

    def __init__(
        self, folder: Path, plans: Sequence[DatedPlan], limits: WorkerLimits, vectors: Vectors
    ) -> None:
        self._plans, self._limits, self._vectors = plans, limits, vectors
        self._settled = SettledInputs(Replication.of(Address()))
        self._context = BatchContext(limits, self._settled, CrashIsolation(), PublicMessageLimit())
        self.stores = OpenStores(folder, MOST_OPEN, vectors.resources)
        self.names = tuple(dict.fromkeys(name for one in plans for name in one.plan.all_stores))
        # By store: the last change before the run, and the inputs that led to later ones.
        self.first_changes: dict[str, int] = {}
        self.changes: dict[str, ChangeLog] = {}
        self.noted: dict[int, Noted] = {}
        self.unrehearsed: dict[int, str] = {}
        self.count = 0
        self.took_s = 0.0
        self._noted_bytes = 0
        self._plan: Plan | None = None

    def run(self, inputs: Iterable[KeptInput]) -> None:
        """Run all inputs, each to its end. Raises Flooded."""
        began = time.perf_counter()
        for name in self.names:
            if self.stores.exists(name):
                self._prepare(name)
                is_embedded = any(name in one.plan.embedded_stores for one in self._plans)
                self._vectors.fill(self.stores.get(name), wanted=is_embedded)
        for number, kept in enumerate(inputs):
            plan = self._find_plan(kept.ms)
            self._run_input(number, Entry(kept.id, plan, kept.fields), kept.ms)
            self.count += 1
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

    def _find_plan(self, at_ms: int) -> Plan:
        """Return the plan of a time. The first one serves all earlier times too."""
        found = self._plans[0].plan
        for one in self._plans:
            if one.from_ms <= at_ms:
                found = one.plan
        if found is not self._plan:
            self._plan = found
            self.stores.compose(find_features([found], self.stores))
        return found

    def _run_input(self, number: int, entry: Entry, now_ms: int) -> None:
        """Run an input and all its continuations."""
        queue: deque[tuple[Work, str]] = deque([(entry, "")])
        done = list[Outcome]()
        if _embeds(entry):
            self._vectors.load()
        while queue:
            work, memory_id = queue.popleft()
            pending_stores = {work.key: memory_id} if memory_id else {}
            retries = Retries(self._limits, pending_stores, now_ms)
            result = Batch([work], self._context, retries, may_wait=False).run(self.stores)
            if result.awaiting:
                time.sleep(result.awaiting[0][1])
                queue.appendleft((work, memory_id))
                continue
            self._note_changes(number, work.plan, result)
            for outcome in result.outcomes:
                self._note(number, work, outcome)
                for pending in outcome.continuations:
                    self._follow(number, pending, outcome.store, queue)
            if result.delayed:
                self.unrehearsed[number] = "a block asked to be called again later"
                self._forget(result.delayed[0].memory_id, result.delayed[0].pending.id)
            if memory_id:
                self._forget(memory_id, work.key)
            done += result.outcomes
        self._settled.add_outcomes(done)

    def _note_changes(self, number: int, plan: Plan, result: BatchResult) -> None:
        for name in result.marks:
            if name not in self.changes:
                self._prepare(name)
                self.first_changes[name] = 0
            store = self.stores.get(name)
            self.changes[name].note(store.records.versions.last_change, number)
            wanted = name in plan.embedded_stores or name in result.embedded
            self._vectors.fill(store, wanted=wanted)

    def _follow(
        self, number: int, pending: Pending, memory_id: str, queue: deque[tuple[Work, str]]
    ) -> None:
        """Run a continuation later, unless it waits for what a rehearsal does not have."""
        plan = self._plan
        assert plan is not None
        if pending.flow is not None:
            self.unrehearsed[number] = f"{pending.agent} lets messages wait (wf_flow)"
        elif pending.is_deferred_call:
            subscriber = plan.subscriber(pending.agent)
            block = subscriber.block if subscriber is not None else ""
            request = orjson.dumps(parse_request(pending)).decode()
            self._notes_of(number).requests.append(Requested(pending.agent, block, request))
            self._count_bytes(len(request))
            self.unrehearsed[number] = (
                f"{pending.agent} waits for the answer to a request ({block}), which is not kept"
            )
        elif len(queue) < self._limits.max_cascade:
            queue.append((from_pending(pending, plan), memory_id))
            return
        else:
            self._notes_of(number).dead_letters.append(Failed(pending.agent, "too many messages"))
        self._forget(memory_id, pending.id)

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


def _embeds(entry: Entry) -> bool:
    """Return whether an input calls an operation that needs the vector of its text."""
    operation = find_operation(name) if (name := entry.text(b"op")) else None
    return operation is not None and bool(operation.embeds)


def _find_action(answer: bytes) -> str:
    """Return what a call has decided: its `action`, or its error; "" for any other answer."""
    parsed = orjson.loads(answer)
    if "error" in parsed:
        return f"{parsed['error']['code']}: {parsed['error']['detail']}"
    output = parsed.get("output")
    action = output.get("action") if isinstance(output, dict) else None
    return action if isinstance(action, str) else ""

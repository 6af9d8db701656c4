"""A worker in this process without a bus, which ends at checkpoints and starts again."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from memrelay.blocks.contract import Transient
from memrelay.bus.client.url import Address
from memrelay.bus.codec import encode, make_mid
from memrelay.bus.keys import PublicSwarm
from memrelay.bus.message import new_message
from memrelay.bus.replication import Replication
from memrelay.guarded_http.rules import OutgoingRules
from memrelay.memory.engine.inbox import Pending
from memrelay.memory.engine.stores import OpenStores
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from memrelay.pipelines.secret_references import NO_SECRETS
from memrelay.rehearsal.setup import DeployedBundle
from memrelay.worker.deferred_calls.bus_operations import BusOperations
from memrelay.worker.deferred_calls.execute import execute
from memrelay.worker.deliver.settled import SettledInputs
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.run.batch import Batch, BatchContext
from memrelay.worker.run.continuations import store_result
from memrelay.worker.run.crash_isolation import CrashIsolation
from memrelay.worker.run.inputs import Entry, Work, from_pending
from memrelay.worker.run.outcome import Outcome, PublicMessageLimit
from memrelay.worker.run.retries import Retries
from memrelay.worker.run.store_features import find_features
from tests.rehearsal.helpers import START_MS
from tests.support.bundles import Json

# The size of a batch does not depend on the load of the machine.
LIMITS = WorkerLimits(batch_s=600.0)
RULES = OutgoingRules(any_port=True, open_for=frozenset({"http"}))
# How often the worker ends at a checkpoint, and how often the next commits fail: a few in a row.
ENDS, FAILS, FAILURES = 0.05, 0.03, 6


class WorkerEnded(BaseException):
    """The worker ends as if it was killed. Nothing in the product catches this."""


class LiveWorker:
    """Runs the inputs of several pipelines in batches of a random size.

    It ends at random checkpoints between two steps. Then the next one has what is committed, and
    gets all entries that are not acknowledged again. A store may refuse a commit, so that its
    inputs are retried. Public messages become inputs of all pipelines that listen. A request is
    made again if the worker ends before it has stored the answer.
    """

    def __init__(self, root: Path, bundles: Sequence[Json], seed: int) -> None:
        self.root, self.now_ms, self.random = root, START_MS, random.Random(seed)
        self.plans: dict[str, Plan] = {}
        # The plan of each version, by the hash of its bundle.
        self._deployed: dict[str, Plan] = {}
        self.versions: dict[str, list[DeployedBundle]] = {}
        # The entries of each pipeline that are not acknowledged.
        self.entries: dict[str, list[Entry]] = {}
        # The answers to calls, by the id of their input.
        self.answers: dict[str, bytes] = {}
        self.counts = {"ended": 0, "retried": 0, "steps": 0, "public": 0, "requests": 0}
        self._running: list[Work] = []
        self._failures = 0
        self._start()
        for bundle in bundles:
            self.deploy(bundle)

    def _start(self) -> None:
        """Start with what the stores have."""
        self.stores = OpenStores(self.root, 20)
        self.stores.clock = lambda: self.now_ms
        self._settled = SettledInputs(Replication.of(Address()))
        self._public_limit = PublicMessageLimit()
        self._context = BatchContext(
            LIMITS, self._settled, CrashIsolation(), self._public_limit, checkpoint=self._pass
        )
        self._compose()
        # What runs later, with the store that keeps it, by key.
        self.pending: dict[str, tuple[Pending, str]] = {
            one.id: (one, name)
            for plan in self.plans.values()
            for name in plan.stores
            for one in self.stores.get(name).pending.all()
        }

    def _compose(self) -> None:
        self.stores.compose(find_features(list(self.plans.values()), self.stores))

    def deploy(self, bundle: Json) -> None:
        """Make a bundle the next version of its pipeline. What waits in a store runs under the
        version that left it there.
        """
        checked = check(bundle | {"inputs_days": 7}).accepted()
        plan = self.plans[checked.uid] = self._deployed[checked.hash] = Plan(checked)
        versions = self.versions.setdefault(plan.uid, [])
        entries = self.entries.get(plan.uid, [])
        self.entries[plan.uid] = [Entry(one.id, plan, one.fields) for one in entries]
        number = len(versions) + 1
        versions.append(DeployedBundle(number, self._tick(), checked.hash, checked.source))
        self._compose()

    def _tick(self) -> int:
        self.now_ms += 1000
        return self.now_ms

    def send(self, uid: str, text: str, swarm: str = "chat", **fields: str) -> None:
        """Add a message to the input of a pipeline."""
        data = encode(new_message("User", "me", text, username="User", now_ms=self.now_ms + 1000))
        self._append(uid, data, {"swarm": swarm} | fields)

    def call(self, uid: str, operation: str, store: str = "", **given: Any) -> None:
        """Add the call of an operation to the input of a pipeline."""
        fields = {"op": operation, "actor": "test"} | ({"store": store} if store else {})
        self._append(uid, orjson.dumps(given), fields)

    def _append(self, uid: str, data: bytes, fields: Mapping[str, str]) -> None:
        packed = [part.encode() for pair in fields.items() for part in pair]
        entry = Entry(f"{self._tick()}-0", self.plans[uid], [*packed, b"data", data])
        self.entries[uid].append(entry)

    def run(self, turns: int = 1_000_000) -> None:
        """Run so many batches, or until nothing is left to do."""
        while turns > 0 and (self.pending or any(self.entries.values())):
            turns -= 1
            try:
                self._make_requests()
                self._run_batch(self.random.choice(list(self.plans.values())))
            except WorkerEnded:
                self.counts["ended"] += 1
                self.close()
                self._start()

    def close(self) -> None:
        """Close the stores without a commit."""
        for name in {name for plan in self.plans.values() for name in plan.all_stores}:
            if self.stores.exists(name) and (store := self.stores.get(name)).in_transaction:
                store.rollback()
        self.stores.close_all()

    def _pass(self, step: str) -> None:
        """End, or let a commit fail, now and then."""
        chance = self.random.random()
        if chance < ENDS:
            raise WorkerEnded(step)
        # No store refuses the commit of a call for longer than the call waits.
        has_call = any(isinstance(one, Entry) and one.field(b"op") for one in self._running)
        if step != "before commit" or has_call:
            return
        if chance > 1 - FAILS:
            self._failures = FAILURES
        if self._failures:
            self._failures -= 1
            raise Transient("the store is not there")

    def _run_batch(self, plan: Plan) -> None:
        """Run what a pipeline has to do, then publish, acknowledge and forget it."""
        entries = self.entries[plan.uid][: self.random.randint(1, 6)]
        due = [
            one
            for one in self.pending.values()
            if one[0].pipeline == plan.uid and not one[0].is_deferred_call
        ]
        later = due[: self.random.randint(0, len(due))]
        work: list[Work] = [*entries, *(self._continue(one) for one, _ in later)]
        if not work:
            return
        self._running = work
        names = {one.id: name for one, name in later}
        batch = Batch(work, self._context, Retries(LIMITS, names, self.now_ms))
        result = batch.run(self.stores)
        assert not result.left and not result.awaiting
        for outcome in result.outcomes:
            self._publish(outcome)
        self._pass("published")
        done = {outcome.key for outcome in result.outcomes}
        self.entries[plan.uid] = [one for one in self.entries[plan.uid] if one.key not in done]
        self._pass("acknowledged")
        for outcome in result.outcomes:
            self._finish(outcome)
        self._settled.add_outcomes(result.outcomes)
        for delayed in result.delayed:
            self.pending[delayed.pending.id] = delayed.pending, delayed.memory_id
            self.counts["retried"] += 1

    def _continue(self, pending: Pending) -> Work:
        return from_pending(pending, self._deployed[pending.bundle])

    def _make_requests(self) -> None:
        """Make some of the requests, and store their answers."""
        for pending, name in list(self.pending.values()):
            if not pending.is_deferred_call or self.random.random() < 0.5:
                continue
            plan = self._deployed[pending.bundle]
            result = asyncio.run(_execute(pending, plan))
            self.counts["requests"] += 1
            self._pass("executed")
            answered = pending._replace(result=result)
            assert store_result(self.stores, name, answered, plan)
            self._pass("deferred call result stored")
            self.pending[pending.id] = answered, name

    def _publish(self, outcome: Outcome) -> None:
        """Note the answer, and add the public messages to the inputs of all that listen."""
        if outcome.answer:
            self.answers[outcome.id] = outcome.answer
        numbered = zip(outcome.numbers or count(), outcome.messages, strict=False)
        public = [
            (number, swarm, data)
            for number, (swarm, data) in numbered
            if isinstance(swarm, PublicSwarm)
        ]
        origin = self._public_limit.add(outcome, len(public))
        ident = f"{outcome.uid}/{outcome.publish_id or outcome.id}"
        for number, swarm, data in public:
            fields = {"swarm": swarm.name, "id": make_mid(ident, number, data), "published": "1"}
            fields |= {"hop": str(swarm.hop), "origin": origin}
            for uid, plan in self.plans.items():
                if swarm.name in plan.public:
                    self._append(uid, data, fields)
                    self.counts["public"] += 1

    def _finish(self, outcome: Outcome) -> None:
        """Forget what waited, and take what follows."""
        assert outcome.dead_letter is None, outcome.dead_letter
        if outcome.key in self.pending:
            with self.stores.get(self.pending.pop(outcome.key)[1]).transaction() as store:
                store.pending.remove([outcome.key])
            self._pass("continuations forgotten")
        for pending in outcome.continuations:
            self.pending[pending.id] = pending, outcome.store
            self.counts["steps"] += 1


async def _execute(pending: Pending, plan: Plan) -> bytes:
    """Return the result of a deferred call."""
    subscriber, bus = plan.subscriber(pending.agent), BusOperations(Address(), NO_SECRETS, RULES)
    assert subscriber is not None
    try:
        return await execute(bus, pending, subscriber, LIMITS.message_bytes)
    finally:
        await bus.close()

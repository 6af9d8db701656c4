"""Inputs that ran before: their outcomes by the inboxes of their stores, and replays."""

from memrelay.bus.client.resp import SwarmMessage
from memrelay.bus.errors import MalformedMessage
from memrelay.memory.engine.inbox import RETRY_SUFFIX, Done, Pending
from memrelay.memory.engine.stores import OpenStores
from memrelay.pipelines.plan import Plan
from memrelay.worker.deliver.settled import SettledInputs
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.run.calls import answer_by_key, find_step_results, make_producer_key
from memrelay.worker.run.cascade import Cascade
from memrelay.worker.run.inputs import Entry, Input, Work, add_parked_fields, decode_unrouted
from memrelay.worker.run.outcome import Outcome, new_outcome
from memrelay.worker.run.retries import DELAYED, delayed_outcome


class EarlierRuns:
    """Finds the outcomes of inputs that ran before, for one batch.

    `cascade` has the stores with an open transaction. `former` are stores of earlier bundle
    versions, whose inboxes may know an input.
    """

    def __init__(
        self,
        stores: OpenStores,
        cascade: Cascade,
        former: tuple[str, ...],
        settled: SettledInputs,
        limits: WorkerLimits,
    ) -> None:
        self._stores, self._cascade, self._former = stores, cascade, former
        self._settled, self._limits = settled, limits
        # By pipeline: the existing built-in stores.
        self._existing: dict[str, set[str]] = {}

    def find(self, work: Input, *, with_steps: bool = True) -> Outcome | None:
        """Return the outcome of an input that ran before, or of one with its idempotency key.

        Raises Transient, only `with_steps`, while steps of the first input have not ended.
        """
        key, touched = work.key, self._cascade.touched
        digest = make_producer_key(work).digest if work.producer_id else b""
        stores = (
            work.plan.stores if work.call is None and not self._former else self._all_stores(work)
        )
        for memory_id in stores:
            inbox = (touched.get(memory_id) or self._stores.get(memory_id)).inbox
            if key in inbox.numbers and (done := inbox.find(key)) is not None:
                if self._has_failed(work, done, memory_id):
                    continue
                return _repeat(work, done, memory_id, work.unkept)
            if digest and (stored := inbox.keys.find(digest)) is not None:
                repeat = answer_by_key(work, stored)
                return self._add_step_results(work, repeat) if with_steps else repeat
        return None

    def _has_failed(self, work: Input, done: Done, memory_id: str) -> bool:
        """Return whether an input is the replay of a delayed one that no longer waits."""
        if not work.replay_entry or done.outputs != DELAYED:
            return False
        waiting = self._stores.get(memory_id).pending.find(work.key + RETRY_SUFFIX)
        return waiting is None or waiting.due < 0

    def _add_step_results(self, work: Input, repeat: Outcome) -> Outcome:
        """Add the results of steps in other stores for a client that waits."""
        if work.reply and work.call is None:
            names = dict.fromkeys((*work.plan.stores, *self._former))
            stores = [self._cascade.touched.get(name) or self._stores.get(name) for name in names]
            repeat.step_results = find_step_results(work, repeat.publish_id, stores)
        return repeat

    def find_unrouted(self, one: Work) -> Outcome | None:
        """Return the outcome of an entry that an earlier bundle ran and this one cannot."""
        try:
            if isinstance(one, Entry):
                work = decode_unrouted(one, self._limits.message_bytes)
                return self.find(work, with_steps=False)
        except MalformedMessage:
            pass
        return None

    def _all_stores(self, work: Input) -> list[str]:
        """Return all stores that may know an input; for calls also the existing built-in stores."""
        stores = [*work.plan.stores, *self._former]
        if work.call is not None:
            stores += self._built_in(work.plan)
        return stores

    def note_store(self, plan: Plan, memory_id: str) -> None:
        """Note that a call may have created a built-in store."""
        self._built_in(plan).add(memory_id)

    def _built_in(self, plan: Plan) -> set[str]:
        """Return the existing built-in stores. The disk is asked once for a pipeline and batch."""
        stores = self._existing.get(plan.uid)
        if stores is None:
            stores = {name for name in plan.built_in_stores.values() if self._stores.exists(name)}
            self._existing[plan.uid] = stores
        return stores

    def begin_replay(self, work: Input) -> None:
        """Take over what the failed run has left, and delete it."""
        for memory_id, parked in self.add_parked_fields(work):
            self._cascade.transaction(memory_id).pending.remove([parked.id])
        for memory_id in work.plan.stores:
            if work.key in self._stores.get(memory_id).inbox.numbers:
                self._cascade.transaction(memory_id).inbox.forget([work.key])
                self._settled.withdraw(memory_id, work.key)

    def add_parked_fields(self, work: Input) -> list[tuple[str, Pending]]:
        """Give a replay what its parked rows have. Return each row with its store.

        A rollback brings the rows back, so it is called again for a replay that is retried.
        """
        parked = [
            (memory_id, one)
            for memory_id in (work.plan.stores if work.replay_entry else ())
            for one in self._stores.get(memory_id).pending.find_parked(work.key)
        ]
        for _, one in parked:
            add_parked_fields(work, one)
        return parked


def _repeat(work: Input, done: Done, store: str, unkept: list[SwarmMessage]) -> Outcome:
    """Return the outcome of a finished input, to publish it again. `store` has its inbox row."""
    if done.outputs == DELAYED:
        return delayed_outcome(work, store)
    outcome = new_outcome(work, store)
    outcome.take_outputs(done.outputs, unkept, work.hop)
    return outcome

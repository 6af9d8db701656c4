"""A batch: many inputs with one transaction, and one fsync, for each store that they touch."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from traceback import format_exception

import structlog

from memrelay.blocks.contract import Transient
from memrelay.bus.client.resp import SwarmMessage
from memrelay.bus.errors import MalformedMessage, MessageTooLong
from memrelay.memory.engine.connection import translate_errors
from memrelay.memory.engine.features import FEED
from memrelay.memory.engine.inbox import RETRY_SUFFIX, Done, Pending
from memrelay.memory.engine.records import is_repeated_guid
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.errors import StoreBroken, StoreBusy, StoreFenced, VectorPending
from memrelay.memory.records.ids import input_time_ms
from memrelay.pipelines.plan import Plan
from memrelay.pipelines.secret_references import NO_SECRETS, SecretResolver
from memrelay.worker.deliver.settled import SettledInputs
from memrelay.worker.errors import (
    CascadeFault,
    describe_error,
    describe_frames,
    find_subscriber,
    subscriber_note,
)
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.run.calls import (
    answer_by_key,
    carry_out,
    find_step_results,
    keep_step_results,
    make_digest,
    make_producer_key,
)
from memrelay.worker.run.cascade import Cascade
from memrelay.worker.run.crash_isolation import AttemptJournal, CrashIsolation
from memrelay.worker.run.inputs import (
    Call,
    Entry,
    Input,
    Work,
    decode_entry,
    decode_unrouted,
    restore_parked,
)
from memrelay.worker.run.outcome import Outcome, PublicMessageLimit, failed_outcome, new_outcome
from memrelay.worker.run.retries import DELAYED, Delayed, Retries, delayed_outcome

log = structlog.stdlib.get_logger(__name__)
DAY_MS = 86_400_000
# Called at each step between which a crash may fall; tests end the process there.
Checkpoint = Callable[[str], None]


@dataclass(slots=True)
class BatchResult:
    """The outcomes of a batch, in the order of its inputs."""

    outcomes: list[Outcome] = field(default_factory=list)
    # Inputs that stores keep for a later retry.
    delayed: list[Delayed] = field(default_factory=list)
    # Calls that wait for a vector, and the seconds until their next attempt.
    awaiting: list[tuple[Entry, float]] = field(default_factory=list)
    # Inputs beyond the limits of size and time of the batch.
    left: Sequence[Work] = ()
    # The last commit of each store.
    marks: dict[str, str] = field(default_factory=dict)
    # The last change of each store whose change feed has grown.
    changes: dict[str, int] = field(default_factory=dict)
    # Stores that need vectors from now on.
    embedded: set[str] = field(default_factory=set)
    # Stores that received an import.
    imported: set[str] = field(default_factory=set)
    # Whether an operation erased records.
    erased: bool = False
    # By pipeline: inputs that were answered from the inbox.
    duplicates: defaultdict[str, int] = field(default_factory=partial(defaultdict, int))
    took_s: float = 0.0


class Batch:
    """Runs inputs in their order in a database thread.

    A failing input fails alone: the batch is rolled back and runs again without it.

    `settled` has the inputs that cannot come back. `gone` has the keys of replays
    whose dead letter no longer exists. With `journal`, as after a crash, each attempt is counted
    and suspects run alone. `former` are stores of earlier bundle versions, whose inboxes may know
    an input. With `may_wait`, calls that need a vector are returned as `awaiting`.
    """

    def __init__(
        self,
        work: Sequence[Work],
        limits: WorkerLimits,
        retries: Retries,
        *,
        settled: SettledInputs,
        isolation: CrashIsolation,
        public_limit: PublicMessageLimit,
        gone: Collection[str] = (),
        journal: AttemptJournal | None = None,
        former: tuple[str, ...] = (),
        may_wait: bool = True,
        secrets: SecretResolver = NO_SECRETS,
        checkpoint: Checkpoint = lambda step: None,
    ) -> None:
        self._rest, self._limits, self._retries = work, limits, retries
        self._settled, self._gone, self._former = settled, gone, former
        self._isolation, self._public_limit = isolation, public_limit
        self._journal, self._may_wait, self._checkpoint = journal, may_wait, checkpoint
        self._secrets = secrets
        self._result = BatchResult()
        self._has_logged_traceback = False
        # By pipeline: the existing built-in stores.
        self._built_in_stores: dict[str, set[str]] = {}
        self._size = 0  # bytes of the published messages
        self._until_s = 0.0  # the end of the batch, as `time.perf_counter` counts
        self._stores: OpenStores
        self._cascade: Cascade

    def run(self, stores: OpenStores) -> BatchResult:
        """Commit everything that can run.

        Raises StoreBusy, StoreBroken: a second call continues where the first one stopped.
        Raises StoreFenced.
        """
        began = time.perf_counter()
        self._until_s = began + self._limits.batch_s
        self._stores = stores
        self._cascade = Cascade(stores, self._limits, self._public_limit, self._secrets)
        while self._has_room:
            count = self._count_together()
            ran, fault = self._run_together(count)
            if fault is not None:
                self._run_around(ran, count, fault)
        self._keep_delayed()
        self._result.left = self._rest
        self._result.took_s += time.perf_counter() - began
        return self._result

    @property
    def _has_room(self) -> bool:
        """Return whether a further input belongs to the batch. It has at least one."""
        if not self._result.outcomes and not self._result.delayed:
            return bool(self._rest)
        is_late = time.perf_counter() > self._until_s
        return bool(self._rest) and self._size <= self._limits.batch_bytes and not is_late

    def _run_together(self, count: int) -> tuple[int, Exception | SystemExit | None]:
        """Run and commit the next inputs. Return how many ran, and the exception of the next one.

        After an exception everything is rolled back.
        """
        outcomes: list[Outcome] = []
        try:
            with translate_errors("a store"), self._isolate():
                self._record_attempts(count)
                size = self._run_inputs(self._rest[:count], outcomes)
                self._commit()
        except (StoreBusy, StoreBroken, StoreFenced):
            self._roll_back()
            raise
        # The fault of a block fails only its message, never the batch or the worker.
        except (Exception, SystemExit) as error:
            subscriber, self._cascade.calling = self._cascade.calling, None
            if subscriber is not None:
                error.add_note(subscriber_note(subscriber.agent.alias, subscriber.block))
            self._roll_back()
            return len(outcomes), error
        self._result.outcomes += outcomes
        self._rest = self._rest[len(outcomes) :]
        self._size += size
        return len(outcomes), None

    def _count_together(self) -> int:
        if self._journal is None:
            return len(self._rest)
        with translate_errors("a store"):
            return self._journal.count_together(self._stores, self._rest)

    def _record_attempts(self, count: int) -> None:
        """Record the attempts of the next inputs. None of them waits for a suspect any more."""
        if self._journal is not None:
            self._journal.record(self._stores, self._rest[:count])
            self._checkpoint("attempt journaled")

    def _isolate(self) -> AbstractContextManager[None]:
        """Return the context of the next inputs: a suspect of a crash runs alone."""
        if self._journal is not None and self._journal.is_suspect(self._rest[0]):
            return self._isolation.alone()
        return self._isolation.concurrent()

    def _run_inputs(self, work: Sequence[Work], outcomes: list[Outcome]) -> int:
        """Run inputs up to the limits of the batch. Return the bytes of the published messages."""
        run, size, most = self._run_one, 0, self._limits.batch_bytes
        clock, until_s = time.perf_counter, self._until_s
        for one in work:
            outcome = run(one)
            outcomes.append(outcome)
            size += outcome.size
            if size > most or clock() > until_s:
                break
        return size

    def _run_one(self, one: Work) -> Outcome:
        """Run one input, or return its outcome from the inbox."""
        try:
            work = self._decode(one) if isinstance(one, Entry) else one
        except MessageTooLong as error:
            cut = one.shorten() if isinstance(one, Entry) else one
            return self._find_unrouted(one) or failed_outcome(
                cut, f"{error}; only its beginning is kept"
            )
        except MalformedMessage as error:
            return self._find_unrouted(one) or failed_outcome(one, str(error))
        repeated = self._find_repeat(work)
        if repeated is not None:
            self._result.duplicates[one.plan.uid] += 1
            # Announce the changes of the input, because a crash may have prevented that.
            if repeated.store and (store := self._stores.get(repeated.store)).has_feature(FEED):
                self._result.changes[repeated.store] = store.feed.last
            return repeated
        if work.replay_entry:
            if work.key in self._gone:
                log.warning("replay_without_letter", pipeline=work.plan.uid, message_id=work.id)
                return new_outcome(work)
            self._begin_replay(work)
        most = self._limits.attempts
        if self._journal is not None and self._journal.count_alone(work.key) > most:
            return failed_outcome(
                one, f"the worker ended {most} times while it ran this message", most
            )
        outcome = self._cascade.run(work) if work.call is None else self._answer(work, work.call)
        if not outcome.store and work.needs_inbox_row:
            outcome.store = work.plan.stores[0]
        if outcome.store:
            self._add_inbox_row(work, outcome)
        return outcome

    def _decode(self, entry: Entry) -> Input:
        return decode_entry(entry, self._limits.message_bytes, self._limits.trusted_fields)

    def _begin_replay(self, work: Input) -> None:
        """Take over what the failed run has left, and delete it."""
        for memory_id, parked in self._restore(work):
            self._begin(memory_id).pending.remove([parked.id])
        for memory_id in work.plan.stores:
            if work.key in self._stores.get(memory_id).inbox.numbers:
                self._begin(memory_id).inbox.forget([work.key])
                self._settled.withdraw(memory_id, work.key)

    def _restore(self, work: Input) -> list[tuple[str, Pending]]:
        """Restore a replay from its parked rows. Return each with its store."""
        parked = [
            (memory_id, one)
            for memory_id in (work.plan.stores if work.replay_entry else ())
            for one in self._stores.get(memory_id).pending.find_parked(work.key)
        ]
        for _, one in parked:
            restore_parked(work, one)
        return parked

    def _answer(self, work: Input, call: Call) -> Outcome:
        return self._try_out(work, call) if call.is_dry_run else self._call(work, call)

    def _try_out(self, work: Input, call: Call) -> Outcome:
        """Answer a dry run. Roll back the stores that no earlier input of the batch has touched."""
        before = set(self._cascade.touched)
        outcome = self._carry_out(work, call)
        outcome.store = ""
        for memory_id in self._cascade.touched.keys() - before:
            self._cascade.touched.pop(memory_id).rollback()
        return outcome

    def _carry_out(self, work: Input, call: Call) -> Outcome:
        outcome = new_outcome(work)
        outcome.store, outcome.answer = carry_out(
            work,
            call,
            self._begin,
            self._limits.message_bytes,
            open_for_read=self._cascade.open_second_store,
            may_wait=self._may_wait,
        )
        outcome.size = len(outcome.answer)
        return outcome

    def _call(self, work: Input, call: Call) -> Outcome:
        outcome = self._carry_out(work, call)
        self._result.erased |= call.operation.erases
        if outcome.store in work.plan.built_in_stores.values():
            # The call may have created it.
            self._find_built_in_stores(work.plan).add(outcome.store)
        needs_vectors = call.operation.embeds or call.operation.needs_vectors
        if needs_vectors or outcome.store in work.plan.vector_stores:
            self._result.embedded.add(outcome.store)
        if call.operation.imports:
            self._result.imported.add(outcome.store)
        return outcome

    def _begin(self, memory_id: str) -> Store:
        return self._cascade.touched.get(memory_id) or self._cascade.begin(memory_id)

    def _find_repeat(self, work: Input, *, with_steps: bool = True) -> Outcome | None:
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

    def _find_unrouted(self, one: Work) -> Outcome | None:
        """Return the outcome of an entry that an earlier bundle ran and this one cannot."""
        try:
            if isinstance(one, Entry):
                work = decode_unrouted(one, self._limits.message_bytes)
                return self._find_repeat(work, with_steps=False)
        except MalformedMessage:
            pass
        return None

    def _all_stores(self, work: Input) -> list[str]:
        """Return all stores that may know an input; for calls also the existing built-in stores."""
        stores = [*work.plan.stores, *self._former]
        if work.call is not None:
            stores += self._find_built_in_stores(work.plan)
        return stores

    def _find_built_in_stores(self, plan: Plan) -> set[str]:
        """Return the existing built-in stores. The disk is asked once for a pipeline and batch."""
        stores = self._built_in_stores.get(plan.uid)
        if stores is None:
            stores = {name for name in plan.built_in_stores.values() if self._stores.exists(name)}
            self._built_in_stores[plan.uid] = stores
        return stores

    def _add_inbox_row(self, work: Input, outcome: Outcome) -> None:
        """Mark an input as done. An input without a row runs again, with the same messages.

        The row leaves out a message that the entry has in the same words.
        """
        store = self._cascade.touched.get(outcome.store) or self._cascade.begin(outcome.store)
        inbox, bundle = store.inbox, work.plan.hash
        inbox.add(work.key, bundle, outcome.to_outputs(work.first_kept))
        if not (work.step_of or work.producer_id):
            return
        now_ms = input_time_ms(work.replay_entry or work.id)
        if work.step_of:
            keep_step_results(inbox, work, outcome, now_ms)
        if work.producer_id:
            digest = make_digest(work.call) if work.call is not None else 0
            inbox.keys.add(make_producer_key(work), outcome.to_answer(digest), now_ms)
        inbox.keys.expire(now_ms - int(self._limits.producer_id_days * DAY_MS))

    def _commit(self) -> None:
        """Commit the inbox rows and the writes of each touched store."""
        touched, settled = self._cascade.touched, self._settled.take()
        for memory_id, store in touched.items():
            store.inbox.forget(settled.get(memory_id, []))
        self._stores.append_to_journal(list(touched.values()))
        while touched:
            memory_id, store = next(iter(touched.items()))
            self._checkpoint("before commit")
            store.commit()
            self._result.marks[memory_id] = store.commits.mark
            if (last := store.feed.take_last()) is not None:
                self._result.changes[memory_id] = last
            del touched[memory_id]
            settled.pop(memory_id, None)
            self._checkpoint("committed")

    def _roll_back(self) -> None:
        for store in self._cascade.touched.values():
            store.rollback()
        self._cascade.touched.clear()

    def _run_around(self, failed: int, count: int, fault: Exception | SystemExit) -> None:
        """Run the inputs before a failed one again, then the failed one alone.

        An exception of the commit may belong to any input, so all of them run alone.
        """
        ran, second_fault = (failed, fault) if failed in (0, count) else self._run_together(failed)
        for _ in range(failed if second_fault is not None else 0):
            self._run_alone()
        if failed < count and ran == failed:
            is_known = not failed or isinstance(fault, Transient | VectorPending)
            self._run_alone(fault if is_known else None)

    def _run_alone(self, fault: Exception | SystemExit | None = None) -> None:
        """Run the next input alone, unless its `fault` is known. A failed input is retried later,
        or becomes a dead letter."""
        if fault is None:
            _, fault = self._run_together(1)
        if fault is None:
            return
        one, self._rest = self._rest[0], self._rest[1:]
        if isinstance(fault, VectorPending) and isinstance(one, Entry):
            self._result.awaiting.append((one, fault.after_s))
            return
        if is_repeated_guid(fault):
            # The bus has brought back an entry whose inbox row is gone.
            log.warning("input_ran_before", pipeline=one.plan.uid, message_id=one.id)
            self._result.outcomes.append(self._note_done(one))
            return
        text, attempts = describe_error(fault, self._secrets), 1
        reason = f"{type(fault).__name__}: {text}"
        subscriber = find_subscriber(fault)
        if isinstance(fault, Transient):
            work = self._decode(one) if isinstance(one, Entry) else one
            self._restore(work)  # the rollback has put its rows back
            reason = self._retries.note(work, fault, text, self._stores)
            attempts = self._limits.retries + 1
        if reason:
            where = f" ({subscriber})" if subscriber else ""
            is_defect = not isinstance(fault, CascadeFault | Transient)
            frames = describe_frames(fault) if is_defect else ""
            self._result.outcomes.append(failed_outcome(one, reason + where, attempts, frames))
            if is_defect:
                self._log_failure(one, subscriber, fault)

    def _note_done(self, one: Work) -> Outcome:
        """Return the outcome of an input whose records exist. Its results are no longer known."""
        return new_outcome(self._decode(one) if isinstance(one, Entry) else one)

    def _log_failure(self, one: Work, subscriber: str, fault: BaseException) -> None:
        """Log one traceback per batch, which is enough to find the fault. It has no message."""
        if self._has_logged_traceback:
            return
        self._has_logged_traceback = True
        log.error(
            "block_failed",
            pipeline=one.plan.uid,
            message_id=one.id,
            subscriber=subscriber,
            exception=self._secrets.redact("".join(format_exception(fault))),
        )

    def _keep_delayed(self) -> None:
        """Keep the inputs to retry in their stores. Their entries are then finished."""
        while (
            postponed := self._retries.keep_some(self._stores, self._settled.take())
        ) is not None:
            self._result.delayed += postponed
            self._result.outcomes += [one.outcome for one in postponed if one.outcome is not None]
            self._checkpoint("put off")


def _repeat(work: Input, done: Done, store: str, unkept: list[SwarmMessage]) -> Outcome:
    """Return the outcome of a finished input, to publish it again. `store` has its inbox row."""
    if done.outputs == DELAYED:
        return delayed_outcome(work, store)
    outcome = new_outcome(work, store)
    outcome.take_outputs(done.outputs, unkept, work.hop)
    return outcome

"""A batch: many inputs with one transaction, and one fsync, for each store that they touch."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from traceback import format_exception

from memrelay.blocks.contract import Transient
from memrelay.blocks.errors import MessageRefused
from memrelay.bus.errors import MalformedMessage, MessageTooLong
from memrelay.logs import get_logger
from memrelay.memory.engine.connection import translate_errors
from memrelay.memory.engine.features import FEED
from memrelay.memory.engine.inbox import Pending
from memrelay.memory.engine.records import is_repeated_guid
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.errors import (
    DeferredMatch,
    StoppedTooLate,
    StoreBroken,
    StoreBusy,
    StoreFenced,
    VectorPending,
)
from memrelay.memory.records.ids import input_time_ms
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
    CallRunner,
    keep_step_results,
    make_digest,
    make_producer_key,
)
from memrelay.worker.run.cascade import Cascade
from memrelay.worker.run.causes import has_causes, note_cause
from memrelay.worker.run.crash_isolation import AttemptJournal, CrashIsolation
from memrelay.worker.run.earlier_runs import EarlierRuns
from memrelay.worker.run.inputs import Call, Entry, Input, Work, decode_entry
from memrelay.worker.run.outcome import Outcome, PublicMessageLimit, failed_outcome, new_outcome
from memrelay.worker.run.policies import redact_input, redact_text, redact_work
from memrelay.worker.run.retries import Delayed, Retries
from memrelay.worker.timings import SMALL_BATCH, Lap
from memrelay.worker.waiting import system_time_ms

log = get_logger(__name__)
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
    # The part of it for commits; and when the run began, as `time.perf_counter` counts.
    commit_s: float = 0.0
    began_s: float = 0.0
    # When the blocks of a small batch ended.
    laps: list[Lap] | None = None


@dataclass(frozen=True, slots=True)
class BatchContext:
    """What all batches of a group share. `settled` has the inputs that cannot come back."""

    limits: WorkerLimits
    settled: SettledInputs
    isolation: CrashIsolation
    public_limit: PublicMessageLimit
    secrets: SecretResolver = NO_SECRETS
    checkpoint: Checkpoint = lambda step: None
    # The time by which `wf_flow` counts, Unix ms.
    clock: Callable[[], int] = system_time_ms
    # The number of changes of records that batches have committed, by store.
    changes: defaultdict[str, int] = field(default_factory=partial(defaultdict, int))


class Batch:
    """Runs inputs in their order in a database thread.

    A failing input fails alone: the batch is rolled back and runs again without it.

    `gone` has the keys of replays whose dead letter no longer exists. With `journal`, as after a
    crash, each attempt is counted and suspects run alone. `former` are stores of earlier bundle
    versions, whose inboxes may know an input. With `may_wait`, calls that need a vector are
    returned as `awaiting`.
    """

    def __init__(
        self,
        work: Sequence[Work],
        context: BatchContext,
        retries: Retries,
        *,
        gone: Collection[str] = (),
        journal: AttemptJournal | None = None,
        former: tuple[str, ...] = (),
        may_wait: bool = True,
    ) -> None:
        self._rest, self._context, self._retries = work, context, retries
        self._gone, self._journal = gone, journal
        self._former, self._may_wait = former, may_wait
        self._limits, self._checkpoint = context.limits, context.checkpoint
        self._result = BatchResult()
        self._has_logged_traceback = False
        self._size = 0  # bytes of the published messages
        self._until_s = 0.0  # the end of the batch, as `time.perf_counter` counts
        # Values that policies found in the input that has failed, with their replacements.
        self._found_in_failed: dict[str, str] = {}
        # By key: what follows inputs that were committed before another store failed.
        self._continuations: dict[str, tuple[Pending, ...]] = {}
        # Made by `run`.
        self._stores: OpenStores
        self._cascade: Cascade
        self._earlier: EarlierRuns

    def run(self, stores: OpenStores) -> BatchResult:
        """Commit everything that can run.

        Raises StoreBusy, StoreBroken: a second call continues where the first one stopped.
        Raises StoreFenced.
        """
        began = self._result.began_s = time.perf_counter()
        self._until_s = began + self._limits.batch_s
        self._stores, context, limits = stores, self._context, self._limits
        self._cascade = Cascade(
            stores, limits, context.public_limit, context.secrets, context.clock
        )
        if len(self._rest) <= SMALL_BATCH:
            self._cascade.laps = self._result.laps = self._result.laps or []
        self._earlier = EarlierRuns(stores, self._cascade, self._former, context.settled, limits)
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
                if self._journal is not None:
                    self._journal.record(self._stores, self._rest[:count])
                    self._checkpoint("attempt journaled")
                size = self._run_inputs(self._rest[:count], outcomes)
                self._commit(outcomes)
        except (StoreBusy, StoreBroken, StoreFenced):
            self._keep_continuations(outcomes)
            self._roll_back()
            raise
        # The fault of a block fails only its message, never the batch or the worker.
        except (Exception, SystemExit) as error:
            subscriber, self._cascade.calling = self._cascade.calling, None
            if subscriber is not None:
                error.add_note(subscriber_note(subscriber.agent.alias, subscriber.block))
            self._found_in_failed = {}
            self._keep_continuations(outcomes)
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

    def _isolate(self) -> AbstractContextManager[None]:
        """Return the context of the next inputs: a suspect of a crash runs alone."""
        isolation = self._context.isolation
        if self._journal is not None and self._journal.is_suspect(self._rest[0]):
            return isolation.alone()
        return isolation.concurrent()

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
        limits = self._limits
        try:
            work = (
                decode_entry(one, limits.message_bytes, limits.trusted_fields)
                if isinstance(one, Entry)
                else one
            )
        except MessageTooLong as error:
            cut = one.shorten() if isinstance(one, Entry) else one
            return self._earlier.find_unrouted(one) or failed_outcome(
                cut, f"{error}; only its beginning is kept"
            )
        except MalformedMessage as error:
            return self._earlier.find_unrouted(one) or failed_outcome(one, str(error))
        repeated = self._earlier.find(work)
        if repeated is not None:
            self._result.duplicates[one.plan.uid] += 1
            # Announce the changes of the input, because a crash may have prevented that.
            if repeated.store and (store := self._stores.get(repeated.store)).has_feature(FEED):
                self._result.changes[repeated.store] = store.feed.last
            repeated.continuations = self._continuations.get(work.key, ())
            return repeated
        if work.replay_entry:
            if work.key in self._gone:
                log.warning("replay_without_letter", pipeline=work.plan.uid, message_id=work.id)
                return new_outcome(work)
            self._earlier.begin_replay(work)
        most = limits.attempts
        if self._journal is not None and self._journal.attempts_alone(work.key) > most:
            return failed_outcome(
                one, f"the worker ended {most} times while it ran this message", most
            )
        if work.hop and has_causes(self._stores, work.plan):
            outcome = self._run_with_cause(work)
        elif work.call is None:
            outcome = self._cascade.run(work)
        else:
            outcome = self._answer(work, work.call)
        is_kept = work.plan.inputs_days and work.call is None and "." not in work.id
        if not outcome.store and (work.needs_inbox_row or is_kept):
            outcome.store = work.plan.stores[0]
        if outcome.store:
            self._add_inbox_row(one, work, outcome)
        return outcome

    def _run_with_cause(self, work: Input) -> Outcome:
        """Run an input that others led to, and note that for the deliveries of its changes."""
        with note_cause(self._stores, work.plan, self._cascade.touched, hop=work.hop):
            return self._cascade.run(work) if work.call is None else self._answer(work, work.call)

    def _decode(self, entry: Entry) -> Input:
        return decode_entry(entry, self._limits.message_bytes, self._limits.trusted_fields)

    def _answer(self, work: Input, call: Call) -> Outcome:
        limit = self._limits.message_bytes
        calls = CallRunner(self._cascade, limit, may_wait=self._may_wait)
        if call.is_dry_run:
            return calls.try_out(work, call)
        outcome, result = calls.run(work, call), self._result
        result.erased |= call.operation.erases
        if outcome.store in work.plan.built_in_stores.values():
            self._earlier.note_store(work.plan, outcome.store)
        needs_vectors = call.operation.embeds or call.operation.needs_vectors
        if needs_vectors or outcome.store in work.plan.vector_stores:
            result.embedded.add(outcome.store)
        if call.operation.imports:
            result.imported.add(outcome.store)
        return outcome

    def _add_inbox_row(self, one: Work, work: Input, outcome: Outcome) -> None:
        """Mark an input as done. An input without a row runs again, with the same messages.

        The row leaves out a message that the entry has in the same words.
        """
        store = self._cascade.touched.get(outcome.store) or self._cascade.begin(outcome.store)
        if self._cascade.has_policies and store.records.findings:
            redact_input(one, outcome, store)
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

    def _commit(self, outcomes: Sequence[Outcome]) -> None:
        """Commit the inbox rows and the writes of each touched store."""
        touched, settled = self._cascade.touched, self._context.settled.take()
        began = time.perf_counter()
        for store in touched.values() if self._cascade.has_policies else ():
            store.records.check_deferred()
        for memory_id, store in touched.items():
            store.inbox.forget(settled.get(memory_id, []))
            if hooks := store.records.path.ran:
                together = zip(self._rest, outcomes, strict=False)
                ran = [pair for pair in together if pair[1].store == memory_id]
                for hook in hooks:
                    hook(ran)
        self._stores.append_to_journal(list(touched.values()))
        while touched:
            memory_id, store = next(iter(touched.items()))
            self._checkpoint("before commit")
            first = store.commits.changes
            store.commit()
            self._context.changes[memory_id] += store.commits.changes - first
            self._result.marks[memory_id] = store.commits.mark
            if (last := store.feed.take_last()) is not None:
                self._result.changes[memory_id] = last
            del touched[memory_id]
            settled.pop(memory_id, None)
            self._checkpoint("committed")
        self._result.commit_s += time.perf_counter() - began

    def _keep_continuations(self, outcomes: Sequence[Outcome]) -> None:
        """Keep what follows committed inputs: an inbox answers their repetition without it."""
        self._continuations |= {
            one.key: one.continuations
            for one in outcomes
            if one.continuations and one.store not in self._cascade.touched
        }

    def _roll_back(self) -> None:
        for store in self._cascade.touched.values():
            self._found_in_failed |= store.records.findings
            store.rollback()
        self._cascade.touched.clear()

    def _run_around(self, failed: int, count: int, fault: Exception | SystemExit) -> None:
        """Run the inputs before a failed one again, then the failed one alone.

        `failed` is the number of inputs before it. If it is `count`, the commit failed: its
        exception may belong to any input, so all of them run alone.
        """
        if isinstance(fault, DeferredMatch):
            return  # they run again, and policies see each record
        if failed == count:
            for _ in range(count):
                self._run_alone()
            return
        if failed:
            ran, second_fault = self._run_together(failed)
            if second_fault is not None:
                for _ in range(failed):
                    self._run_alone()
                if ran < failed:  # the failed one has its turn later
                    return
        # Policies may not have seen its records yet.
        is_seen = not self._cascade.has_policies
        is_known = is_seen and (not failed or isinstance(fault, Transient | VectorPending))
        self._run_alone(fault if is_known else None)

    def _run_alone(self, fault: Exception | SystemExit | None = None) -> None:
        """Run the next input alone, unless its `fault` is known. A failed input is retried later,
        or becomes a dead letter."""
        self._cascade.is_alone = True
        if fault is None:
            _, fault = self._run_together(1)
        while isinstance(fault, StoppedTooLate):
            _, fault = self._run_together(1)
        self._cascade.is_alone = False
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
        text, attempts = describe_error(fault, self._context.secrets), 1
        if self._found_in_failed:
            redact_work(one, self._found_in_failed)
            text = redact_text(text, self._found_in_failed)
        reason = f"{type(fault).__name__}: {text}"
        subscriber = find_subscriber(fault)
        if isinstance(fault, Transient):
            work = self._decode(one) if isinstance(one, Entry) else one
            self._earlier.add_parked_fields(work)  # the rollback has put its rows back
            reason = self._retries.note(work, fault, text, self._stores)
            attempts = self._limits.retries + 1
        if reason:
            where = f" ({subscriber})" if subscriber else ""
            is_defect = not isinstance(fault, CascadeFault | MessageRefused | Transient)
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
        exception = self._context.secrets.redact("".join(format_exception(fault)))
        log.error(
            "block_failed",
            pipeline=one.plan.uid,
            message_id=one.id,
            subscriber=subscriber,
            exception=redact_text(exception, self._found_in_failed),
        )

    def _keep_delayed(self) -> None:
        """Keep the inputs to retry in their stores. Their entries are then finished."""
        while (
            postponed := self._retries.keep_some(self._stores, self._context.settled.take())
        ) is not None:
            self._result.delayed += postponed
            self._result.outcomes += [one.outcome for one in postponed if one.outcome is not None]
            self._checkpoint("put off")

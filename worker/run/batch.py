"""A batch: many inputs, one transaction for each store that they touch, one fsync. One callable for
a database thread."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

import structlog

from memrelay.blocks.contract import Transient
from memrelay.bus.client.resp import Said
from memrelay.bus.codec import encode
from memrelay.bus.errors import MalformedMessage, MessageTooLong
from memrelay.memory.errors import StoreBroken, StoreBusy, StoreFenced
from memrelay.memory.operations.records_erase import NAME as ERASE
from memrelay.memory.operations.records_import import NAME as IMPORT
from memrelay.memory.records.ids import time_of
from memrelay.memory.sqlite.connection import translated
from memrelay.memory.sqlite.inbox import Done
from memrelay.memory.sqlite.store import Store
from memrelay.memory.stores import OpenStores
from memrelay.worker.errors import CascadeFault, describe_error
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.run.calls import carry_out, digest_of, kept_id, known_by_id, refusal
from memrelay.worker.run.cascade import Cascade
from memrelay.worker.run.crash_isolation import CrashIsolation
from memrelay.worker.run.inputs import Call, Entry, Input, Work, as_it_was, from_entry
from memrelay.worker.run.outcome import NewDeadLetter, Outcome, PublicMessageLimit, outcome_of
from memrelay.worker.run.retries import PUT_OFF, Delayed, Retries, delayed_message

log = structlog.stdlib.get_logger(__name__)
DAY_MS = 86_400_000
Checkpoint = Callable[
    [str], None
]  # called at each step that a crash may fall between; tests end the process there


@dataclass(slots=True)
class BatchResult:
    """Outcomes in the order of the inputs, and the inputs for which there was no room: they come
    next."""

    outcomes: list[Outcome] = field(default_factory=list)
    delayed: list[Delayed] = field(default_factory=list)  # to be run again later
    left: Sequence[Work] = ()
    marks: dict[str, str] = field(default_factory=dict)  # store -> its last commit, for the bus
    embedded: set[str] = field(default_factory=set)  # stores that are to have vectors from now on
    imported: set[str] = field(default_factory=set)  # stores that an export was put into
    erased: bool = False  # whether something was erased for good
    duplicates: defaultdict[str, int] = (
        field(  # pipeline -> inputs that were answered from the inbox
            default_factory=partial(defaultdict, int)
        )
    )
    took_s: float = 0.0


class Batch:
    """Runs inputs in their order. A failing one fails alone: the batch is rolled back and run again
    around it."""

    def __init__(
        self,
        work: Sequence[Work],
        limits: WorkerLimits,
        retries: Retries,
        *,
        settled: dict[str, list[str]],
        quarantine: CrashIsolation,
        spread: PublicMessageLimit,
        gone: Collection[str] = (),
        journal: bool = False,
        former: tuple[str, ...] = (),
        checkpoint: Checkpoint = lambda step: None,
    ) -> None:
        """`settled` are inputs per store that cannot come back, `gone` replays whose letter is
        there no more.

        `journal` counts attempts, as after a crash. `former` are stores of earlier versions, whose
        inboxes may know what
        comes back.
        """
        self._rest, self._limits, self._retries, self._settled, self._gone = (
            work,
            limits,
            retries,
            settled,
            gone,
        )
        self._quarantine, self._journal, self._former, self._checkpoint = (
            quarantine,
            journal,
            former,
            checkpoint,
        )
        self._spread = spread
        self._journaled: set[str] = (
            set()
        )  # an attempt is one, though a busy store may begin it several times
        self._result = BatchResult()
        self._told = False
        self._size = 0  # bytes that were said
        self._stores: OpenStores
        self._cascade: Cascade

    def __call__(self, stores: OpenStores) -> BatchResult:
        """Commits all that can be done.

        Raises StoreBusy or StoreBroken, after which it may be called again, and goes on from there;
        or StoreFenced.
        """
        began = time.perf_counter()
        self._stores, self._cascade = stores, Cascade(stores, self._limits, self._spread)
        while self._rest and self._size <= self._limits.batch_bytes:
            count = 1 if self._journal else len(self._rest)
            ran, fault = self._together(count)
            if fault is not None:
                self._around(ran, count, fault)
        self._delay()
        self._result.left = self._rest
        self._result.took_s += time.perf_counter() - began
        return self._result

    def _around(self, failed: int, count: int, fault: Exception | SystemExit) -> None:
        """Runs what went well before the fault, and the failing one alone. A fault of the commit
        may be anybody's."""
        ran, again = (failed, fault) if failed in (0, count) else self._together(failed)
        for _ in range(failed if again is not None else 0):
            self._alone()
        if failed < count and ran == failed:
            self._alone(fault if not failed or isinstance(fault, Transient) else None)

    def _alone(self, fault: Exception | SystemExit | None = None) -> None:
        """The first of the rest, which is put off or given up where it fails; it need not run where
        its `fault` is known."""
        if fault is None:
            _, fault = self._together(1)
        if fault is None:
            return
        one, self._rest = self._rest[0], self._rest[1:]
        reason, attempts = f"{type(fault).__name__}: {describe_error(fault)}", 1
        if isinstance(fault, Transient):
            reason, attempts = (
                self._retries.note(self._as_input(one), fault, self._stores),
                self._limits.retries + 1,
            )
        if reason:
            self._result.outcomes.append(_given_up(one, reason, attempts))
        if reason and not isinstance(fault, CascadeFault | Transient) and not self._told:
            self._told = (
                True  # one of a batch is enough to find the fault by; a traceback holds no message
            )
            log.error(
                "block_failed",
                pipeline=one.plan.uid,
                message_id=one.id,
                exc_info=fault,
            )

    def _together(self, count: int) -> tuple[int, Exception | SystemExit | None]:
        """(how many of the rest ran, what the next one raised). Commits what ran, unless one
        raised: then nothing changes."""
        outcomes: list[Outcome] = []
        try:
            with translated("a store"), self._company():
                size = self._run_all(self._rest[:count], outcomes)
                self._commit()
        except (StoreBusy, StoreBroken, StoreFenced):
            self._undo()
            raise
        except (
            Exception,
            SystemExit,
        ) as error:  # a block's fault fails its own message, never the batch or the worker
            self._undo()
            return len(outcomes), error
        self._result.outcomes += outcomes
        self._rest = self._rest[len(outcomes) :]
        self._size += size
        return len(outcomes), None

    def _delay(self) -> None:
        """What is to be run later is kept, and its entries have come to their end."""
        while (done := self._retries.keep_some(self._stores, self._settled)) is not None:
            self._result.delayed += done
            self._result.outcomes += [one.outcome for one in done if one.outcome is not None]
            self._checkpoint("put off")

    def _as_input(self, one: Work) -> Input:
        return from_entry(one, self._limits.message_bytes) if isinstance(one, Entry) else one

    def _company(self) -> AbstractContextManager[None]:
        """Beside whom it runs: after a crash an input that was tried before is alone."""
        one = self._rest[0]
        suspect = self._journal and self._stores.get(one.plan.stores[0]).inbox.was_tried(one.key)
        return self._quarantine.alone() if suspect else self._quarantine.beside()

    def _run_all(self, work: Sequence[Work], outcomes: list[Outcome]) -> int:
        """Runs inputs until one raises or enough is said; returns how many bytes were."""
        run, size, most = self._run, 0, self._limits.batch_bytes
        for one in work:
            outcome = run(one)
            outcomes.append(outcome)
            size += outcome.size
            if size > most:
                break
        return size

    def _run(self, one: Work) -> Outcome:
        """One input, or what the inbox holds of it."""
        try:
            work = from_entry(one, self._limits.message_bytes) if isinstance(one, Entry) else one
        except MessageTooLong as error:
            cut = one.cut() if isinstance(one, Entry) else one
            return self._done_before(one) or _given_up(cut, f"{error}; only its beginning is kept")
        except MalformedMessage as error:
            return self._done_before(one) or _given_up(one, str(error))
        known = self._known(work)
        if known is not None:
            self._result.duplicates[one.plan.uid] += 1
            return known
        if work.entry and work.key in self._gone:
            log.warning("replay_without_letter", pipeline=work.plan.uid, message_id=work.id)
            return outcome_of(work)
        most = self._limits.attempts
        if self._journal and self._attempts(work) > most:
            return _given_up(one, f"the worker ended {most} times while it ran this message", most)
        outcome = self._cascade.run(work) if work.call is None else self._call(work, work.call)
        if not outcome.store and work.kept:
            outcome.store = work.plan.stores[0]
        if outcome.store:
            self._keep(work, outcome)
        return outcome

    def _call(self, work: Input, call: Call) -> Outcome:
        """An operation, in its store's transaction."""
        outcome = outcome_of(work)
        outcome.store, outcome.answer = carry_out(
            work, call, self._begun, self._limits.message_bytes
        )
        outcome.size = len(outcome.answer)
        self._result.erased |= call.operation.name == ERASE
        if call.operation.embeds:
            self._result.embedded.add(outcome.store)
        if call.operation.name == IMPORT:
            self._result.imported.add(outcome.store)
        return outcome

    def _begun(self, memory_id: str) -> Store:
        return self._cascade.touched.get(memory_id) or self._cascade.begin(memory_id)

    def _done_before(self, one: Work) -> Outcome | None:
        """What the inbox holds of an entry that this version cannot run, and an earlier one has."""
        try:
            return (
                self._known(as_it_was(one, self._limits.message_bytes))
                if isinstance(one, Entry)
                else None
            )
        except MalformedMessage:
            return None

    def _known(self, work: Input) -> Outcome | None:
        """What the inbox holds of an input that came back, or of an earlier message with its
        producer's id."""
        key, touched = work.key, self._cascade.touched
        stores = (
            work.plan.stores if work.call is None and not self._former else self._all_stores(work)
        )
        for memory_id in stores:
            inbox = (touched.get(memory_id) or self._stores.get(memory_id)).inbox
            if key in inbox.numbers and (done := inbox.find(key)) is not None:
                return _again(work, done, memory_id, work.own)
            if work.producer_id and (done := known_by_id(inbox, work)) is not None:
                outcome = _again(work, done, "", [])
                outcome.answer = refusal(work, done) or outcome.answer
                return outcome
        return None

    def _all_stores(self, work: Input) -> list[str]:
        """Those of the plan, of named memories where there are some, and of earlier versions."""
        home = work.plan.home
        return [
            *work.plan.stores,
            *self._former,
            *[home] * (work.call is not None and self._stores.exists(home)),
        ]

    def _keep(self, work: Input, outcome: Outcome) -> None:
        """The inbox row. An input that touched no store has none: it is run again if it comes back,
        and says the same.

        What it says itself is not in the row where its entry says it in the same words.
        """
        store = self._cascade.touched.get(outcome.store) or self._cascade.begin(outcome.store)
        inbox, bundle = store.inbox, work.plan.hash
        inbox.add(work.key, bundle, outcome.to_outputs(work.kept_from))
        if work.producer_id:
            now_ms = time_of(work.entry or work.id)
            asked = digest_of(work.call) if work.call is not None else 0
            inbox.add_produced(kept_id(work), Done(bundle, outcome.to_outputs(0, asked)), now_ms)
            inbox.expire_produced(now_ms - int(self._limits.producer_id_days * DAY_MS))

    def _attempts(self, work: Input) -> int:
        """Journals an attempt before it starts, in a transaction of its own."""
        if work.key in self._journaled:
            return 0
        with self._stores.get(work.plan.stores[0]).transaction() as store:
            attempts = store.inbox.count_attempt(work.key)
        self._journaled.add(work.key)
        self._checkpoint("attempt journaled")
        return attempts

    def _commit(self) -> None:
        touched = self._cascade.touched
        while touched:
            memory_id, store = next(iter(touched.items()))
            store.inbox.forget(self._settled.get(memory_id, []))
            self._checkpoint("before commit")
            store.commit()
            self._result.marks[memory_id] = store.commits.mark
            del touched[memory_id]
            self._settled.pop(memory_id, None)
            self._checkpoint("committed")

    def _undo(self) -> None:
        for store in self._cascade.touched.values():
            store.rollback()
        self._cascade.touched.clear()


def _again(work: Input, done: Done, store: str, before: list[Said]) -> Outcome:
    """An input that is done: it says what it said, and `store` forgets it when that has left."""
    if done.outputs == PUT_OFF:
        return delayed_message(work, store)
    outcome = outcome_of(work, store)
    outcome.take_outputs(done.outputs, before)
    return outcome


def _given_up(work: Work, error: str, attempts: int = 1) -> Outcome:
    """An input that goes to the dead letters, as it came."""
    if isinstance(work, Entry):
        if name := work.text(b"op"):
            error = f"{name[:100]}: {error}"
        letter = NewDeadLetter(
            error,
            work.text(b"swarm"),
            work.field(b"data"),
            work.plan.hash,
            work.text(b"agent"),
            work.text(b"id"),
            work.text(b"hop"),
            bool(work.field(b"published")),
            attempts,
        )
        return Outcome(
            work.key, work.id, work.plan.uid, work.id, work.reply, entry=work.entry, letter=letter
        )
    outcome = outcome_of(work)
    outcome.letter = NewDeadLetter(
        error,
        work.swarm,
        encode(work.message),
        work.plan.hash,
        work.only,
        work.producer_id,
        str(work.hop),
        work.heard > 0,
        attempts,
    )
    return outcome

"""Carries out operations that arrive as entries, and compares repeated idempotency keys."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import orjson
from pydantic import ValidationError

from memrelay.blocks.contract import Transient
from memrelay.bus.request import KEY_REUSED, REFUSED, error_answer
from memrelay.memory.admission import Stops, run_stoppable, settle
from memrelay.memory.engine.idempotency import CALL_KEY_PREFIX, ProducerKey
from memrelay.memory.engine.inbox import Inbox
from memrelay.memory.engine.memory_id import built_in_store, is_closed
from memrelay.memory.engine.models import list_hooks, load
from memrelay.memory.engine.open_for_read import ReadableStores, read_only
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import InvalidInput, PolicyStop, Refused
from memrelay.memory.operations import Context, Operation, Steps
from memrelay.memory.records.ids import derive_guid, input_time_ms
from memrelay.memory.search.text.languages import DEFAULT_LANGUAGE
from memrelay.pipelines.plan import Plan
from memrelay.pipelines.rules import in_a_line
from memrelay.worker.run.inputs import STEP_MARK, Call, Input
from memrelay.worker.run.outcome import Outcome, new_outcome, read_call_digest

if TYPE_CHECKING:
    from memrelay.memory.engine.open_for_read import ReadOnlyStore
    from memrelay.worker.run.cascade import Cascade

# Maximum size of an answer, in maximum messages. An answer goes to one caller and into no log.
MAX_ANSWER_MESSAGES = 8
# Stands for the output of a stepwise operation that is not at its end.
CONTINUES: Final = object()
# Returns a store of a plan for the reads of an actor at a time (Unix ms). Raises Refused.
OpenSecondStore = Callable[[Plan, str, tuple[int, str]], "ReadOnlyStore"]


def carry_out(
    work: Input,
    call: Call,
    begin: Callable[[str], Store],
    message_bytes: int,
    *,
    open_for_read: OpenSecondStore,
    stops: Stops,
    may_wait: bool = True,
) -> tuple[str, bytes]:
    """Run an operation and return its store and its answer.

    `begin` returns a store with an open transaction, `open_for_read` another one for reads. A
    replay gives the same answer.

    Raises VectorPending: when `may_wait` is set and the call needs a vector that is not there yet.
    Raises StoppedTooLate.
    """
    uid, numbers = work.plan.uid, count(1)
    try:
        memory_id = resolve_store(work.plan, call.store, call.operation)
    except Refused as error:
        return work.plan.stores[0], error_answer(error.code, str(error))
    now_ms = input_time_ms(work.id)
    context = Context(
        now_ms,
        call.actor,
        MAX_ANSWER_MESSAGES * message_bytes,
        lambda: derive_guid(uid, work.id, call.operation.name, next(numbers)),
        work.plan.languages.get(memory_id, DEFAULT_LANGUAGE),
        may_wait,
        lambda other: open_for_read(work.plan, other, (now_ms, call.actor)),
        work.plan.timezone,
        work.plan.uid,
        origin=(call.actor, "", *work.via),
        input_id=work.id,
        review_days=work.plan.review_days,
        keep_receipt=_keep_digest if work.plan.only_digests else _keep_receipt,
    )
    tx = begin(memory_id)
    if not (tx.records.path.admit and call.operation.mutates):
        return memory_id, answer_call(call.operation, call.data, tx, context)

    def run() -> Any:
        given = call.operation.adapter.validate_json(call.data, strict=True)
        perform = partial(call.operation.run, tx, given, context)
        output = run_stoppable(stops, work.key, tx, perform)
        if isinstance(output, PolicyStop):
            return settle(output, call.operation, given, tx, context)
        return output

    return memory_id, answer_with(call.operation, run) or b""


def _keep_receipt(*read: Any) -> None:
    """Add the receipt of (operation, store, input, output, context) to the transaction."""
    _add_receipt(read[1], load(list_hooks("receipt")[0])(*read))


def _keep_digest(*read: Any) -> None:
    """Add such a receipt with a digest in place of the question."""
    _add_receipt(read[1], load(list_hooks("receipt")[0])(*read).without_question())


def _add_receipt(tx: Store, receipt: Any) -> None:
    table: Any = tx.table(load(list_hooks("receipt_table")[0]))
    table.add_all([receipt])


class CallRunner:
    """Answers the calls of one batch.

    With `may_wait`, a call that needs a vector that is not there yet raises VectorPending.
    """

    def __init__(self, cascade: "Cascade", message_bytes: int, *, may_wait: bool) -> None:
        self._cascade, self._message_bytes, self._may_wait = cascade, message_bytes, may_wait

    def try_out(self, work: Input, call: Call) -> Outcome:
        """Answer a dry run. Roll back the stores that no earlier input of the batch has touched."""
        touched = self._cascade.touched
        before = set(touched)
        outcome = self.run(work, call)
        outcome.store = ""
        for memory_id in touched.keys() - before:
            touched.pop(memory_id).rollback()
        return outcome

    def run(self, work: Input, call: Call) -> Outcome:
        """Answer a call, with its effects in the open transaction of its store."""
        outcome = new_outcome(work)
        outcome.store, outcome.answer = carry_out(
            work,
            call,
            self._cascade.transaction,
            self._message_bytes,
            open_for_read=self._cascade.open_second_store,
            stops=self._cascade.stops,
            may_wait=self._may_wait,
        )
        outcome.size = len(outcome.answer)
        return outcome


def answer_call(operation: Operation, data: bytes, tx: Store, context: Context) -> bytes:
    """Return the answer as JSON: {"output": ...} or {"error": {"code", "detail"}}.

    Other exceptions of the operation pass through.
    """

    def run() -> Any:
        return operation.run(tx, operation.adapter.validate_json(data, strict=True), context)

    answer = answer_with(operation, run)
    assert answer is not None
    return answer


def answer_with(operation: Operation, run: Callable[[], Any]) -> bytes | None:
    """Return the answer with the output of `run`, as `answer_call` does; None for CONTINUES."""
    try:
        output = run()
        return None if output is CONTINUES else orjson.dumps({"output": output})
    except ValidationError as error:
        return error_answer(REFUSED, f"{operation.name}: {in_a_line(error)}")
    except InvalidInput as error:
        return error_answer(error.code, str(error), [one._asdict() for one in error.faults])
    except Refused as error:
        return error_answer(error.code, str(error))


def begin_call(operation: Operation, data: bytes, tx: Store, context: Context) -> Steps:
    """Begin a stepwise operation. Raises ValidationError."""
    assert operation.begin is not None
    return operation.begin(tx, operation.adapter.validate_json(data, strict=True), context)


def resolve_store(plan: Plan, memory_id: str, operation: Operation) -> str:
    """Return the store of a call. The default is the operation's own or the pipeline's first.

    A name without a slash is a store below `instances/UID/`. Raises Refused for a store of another
    pipeline.
    """
    if memory_id and "/" not in memory_id:
        memory_id = built_in_store(plan.uid, memory_id)
    if operation.store and (memory_id in ("", plan.built_in_stores[operation.store])):
        return plan.built_in_stores[operation.store]
    if not operation.takes_store:
        raise Refused(
            f"{operation.name} works only on {plan.built_in_stores[operation.store]}; "
            "leave the store out"
        )
    if not memory_id:
        return _default_store(plan, operation)
    if memory_id not in plan.all_stores:
        raise Refused(
            f"the bundle of pipeline {plan.uid} names no store {memory_id[:200]!r}; it has "
            f"{', '.join(plan.all_stores)}"
        )
    operation.check_store(memory_id)
    return memory_id


def _default_store(plan: Plan, operation: Operation) -> str:
    """Return the first store of the bundle that the operation may use. Raises Refused."""
    found = next((name for name in plan.stores if not is_closed(name)), plan.stores[0])
    operation.check_store(found)
    return found


# Idempotency: a call with a used key gets the first answer, and a different call is refused.

# The digest is an integer, because an erasure searches the stored texts.
DIGEST_BYTES = 8


def make_producer_key(work: Input) -> ProducerKey:
    """Return the idempotency key under which stores remember an input."""
    return ProducerKey(work.plan.uid, work.producer_id, work.call is not None)


def answer_by_key(work: Input, kept: bytes) -> Outcome:
    """Return the outcome of an input whose idempotency key was used before.

    `kept` is what the first input left: its results are published again, and answered.
    """
    outcome = new_outcome(work)
    outcome.take_answer(kept)
    outcome.answer = key_conflict(work, kept) or outcome.answer
    return outcome


def make_digest(call: Call) -> int:
    """Return a digest of the operation, the store as given, and the parsed input.

    Fields with their default value do not count, so a new optional field keeps old digests valid.
    An invalid input counts as it is.
    """
    try:
        parsed = call.operation.adapter.validate_json(call.data, strict=True)
        given = {
            field.name: value
            for field in fields(parsed)
            if (value := getattr(parsed, field.name)) != field.default
        }
        content = orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
    except ValidationError:
        content = call.data
    whole = b"\0".join((call.operation.name.encode(), call.store.encode(), content))
    return int.from_bytes(blake2b(whole, digest_size=DIGEST_BYTES).digest())


def key_conflict(work: Input, kept: bytes) -> bytes:
    """Return the error for a key that was used for a different call; b"" if the call is the same.

    An erased answer has no digest and counts as the same call.
    """
    digest = read_call_digest(kept) if work.call is not None else 0
    if work.call is None or not digest or digest == make_digest(work.call):
        return b""
    return error_answer(
        KEY_REUSED,
        f"the Idempotency-Key {work.producer_id.removeprefix(CALL_KEY_PREFIX)!r} was used in this "
        "pipeline for another operation, store or input, and nothing was changed; keys are "
        "remembered for worker.producer_id_days: give this call a key of its own",
    )


# Results of a cascade's steps in other stores. The row of the key has only the results of the first
# store. Each further step keeps its own results in its own store, under the key with a suffix.

# How long a repeat waits before it looks again for the end of the first cascade, and in total.
PAUSE_S, LONGEST_WAIT_S = 0.2, 60.0


def keep_step_results(inbox: Inbox, work: Input, outcome: Outcome, now_ms: int) -> None:
    """Keep the results of a step, in the transaction with its effects."""
    if outcome.results:
        number = sum(1 for _ in _stored_answers(inbox, work, work.step_of))
        inbox.keys.add(_step_key(work, work.step_of, number), outcome.to_answer(), now_ms)


def find_step_results(work: Input, first_id: str, stores: Sequence[Store]) -> list[bytes]:
    """Return the results of the steps of the input `first_id`, in the order of the steps.

    `work` repeats its idempotency key. Raises Transient while a step has not ended. A repeat that
    is older than LONGEST_WAIT_S gets the results that there are.
    """
    age_s = time.time() - input_time_ms(work.id) / 1000
    is_running = any(store.pending.has_cascade(work.plan.uid, first_id) for store in stores)
    if is_running and age_s < LONGEST_WAIT_S:
        raise Transient("the first message with this id still runs", PAUSE_S, counts=False)
    steps = []
    for store in stores:
        for answer in _stored_answers(store.inbox, work, work.producer_id):
            step = new_outcome(work)
            step.take_answer(answer)
            steps.append(step)
    steps.sort(key=lambda step: _find_position(step.publish_id))
    return [step.messages[number][1] for step in steps for number in step.results]


def _stored_answers(inbox: Inbox, work: Input, producer_id: str) -> Iterator[bytes]:
    for number in count():
        answer = inbox.keys.find(_step_key(work, producer_id, number).digest)
        if answer is None:
            return
        yield answer


def _step_key(work: Input, producer_id: str, number: int) -> ProducerKey:
    return ProducerKey(work.plan.uid, f"{producer_id}{STEP_MARK}{number}", is_call=False)


def _find_position(ident: str) -> tuple[int, list[list[int]]]:
    """Return the position of a step in its cascade: its depth, then its path.

    The id of a step is `<first id>.<messages>+<steps>`, and so on for its own steps.
    """
    path = [[int(number) for number in part.split("+")] for part in ident.split(".")[1:]]
    return len(path), path


def open_second_store(
    stores: ReadableStores,
    plan: Plan,
    memory_id: str,
    act: tuple[int, str],
    touched: Mapping[str, Store],
) -> "ReadOnlyStore":
    """Return a view of a store of the plan for reads, in the same thread and without a transaction.

    A store in `touched` has uncommitted writes of the batch, which are visible. `act` is the time
    (Unix ms) and the actor of the reader. Raises Refused for a store of another pipeline and for
    the built-in store of the items, whose operations check the access.
    """
    readable = [name for name in plan.all_stores if not is_closed(name)]
    if memory_id not in readable:
        raise Refused(
            f"pipeline {plan.uid} has no store {memory_id[:200]!r} to read; it has "
            f"{', '.join(readable)}"
        )
    store = touched.get(memory_id) or stores.get(memory_id)
    if store.records.versions.current_act[:2] != act:
        store.records.set_actor(*act)
    return read_only(store)

"""Calls: an operation is carried out on a store, and what comes of it is an answer, also where it
is refused."""

from collections.abc import Callable
from dataclasses import fields
from hashlib import blake2b
from itertools import count

import orjson
from pydantic import ValidationError

from memrelay.bus.request import KEY_REUSED, REFUSED, error_answer
from memrelay.memory.errors import Refused
from memrelay.memory.operation import Context, Operation
from memrelay.memory.records.ids import derive_guid, time_of
from memrelay.memory.sqlite.inbox import Done, Inbox
from memrelay.memory.sqlite.store import Store
from memrelay.memory.text.languages import DEFAULT_LANGUAGE
from memrelay.pipelines.plan import Plan
from memrelay.pipelines.rules import in_a_line
from memrelay.worker.run.inputs import APART, Call, Input
from memrelay.worker.run.outcome import asked_of

RESULT_SHARE = (
    8  # how many messages' worth an answer may hold: it goes to one caller, and into no log
)


def carry_out(
    work: Input, call: Call, begun: Callable[[str], Store], message_bytes: int
) -> tuple[str, bytes]:
    """(store, answer) of a call that came as an entry; `begun` gives a store whose transaction is
    open.

    The answer is the same whenever it is run.
    """
    uid, numbers = work.plan.uid, count(1)
    try:
        memory_id = store_of(work.plan, call.store, call.operation)
    except Refused as error:
        return work.plan.stores[0], error_answer(error.code, str(error))
    context = Context(
        time_of(work.id),
        call.actor,
        RESULT_SHARE * message_bytes,
        lambda: derive_guid(uid, work.id, call.operation.name, next(numbers)),
        work.plan.languages.get(memory_id, DEFAULT_LANGUAGE),
    )
    return memory_id, perform(call.operation, call.data, begun(memory_id), context)


def perform(operation: Operation, data: bytes, tx: Store, context: Context) -> bytes:
    """The answer as JSON: {"output": ...} or {"error": {"code", "detail"}}. What the operation
    raises else comes through."""
    try:
        asked = operation.adapter.validate_json(data, strict=True)
        return orjson.dumps({"output": operation.run(tx, asked, context)})
    except ValidationError as error:
        return error_answer(REFUSED, f"{operation.name}: {in_a_line(error)}")
    except Refused as error:
        return error_answer(error.code, str(error))


def store_of(plan: Plan, memory_id: str, operation: Operation) -> str:
    """The store that a call names, by default the operation's own or the pipeline's first.

    Raises Refused for one that is neither named by the bundle nor that of named memories.
    """
    if operation.at_home:
        if memory_id not in ("", plan.home):
            raise Refused(f"{operation.name} works on {plan.home} alone; leave the store out")
        return plan.home
    if not memory_id:
        return plan.stores[0]
    if memory_id not in plan.every_store:
        raise Refused(
            f"the bundle of pipeline {plan.uid} names no store {memory_id[:200]!r}; it has "
            f"{', '.join(plan.every_store)}"
        )
    return memory_id


# Repeats: a call that comes again under its caller's key gets the first answer; another call under
# that key is refused.

DIGEST_BYTES = (
    8  # an integer: what was erased is looked for in the texts that are kept, and a digest is none
)


def kept_id(work: Input) -> str:
    """The id that its producer gave it, in stores that several pipelines may share."""
    return f"{work.plan.uid}/{work.producer_id}"


def known_by_id(inbox: Inbox, work: Input) -> Done | None:
    """What an earlier input with its producer's id led to."""
    done = inbox.produced(kept_id(work))
    if (
        done is None and work.call is not None
    ):  # an earlier version kept keys by operation, without a digest
        done = inbox.produced(f"{work.plan.uid}/{work.call.operation.name}{work.producer_id}")
    return done


def digest_of(call: Call) -> int:
    """What is asked for: the operation, the store as it was named, and the input as it was
    understood.

    Fields at their default are left out, so that an operation that learns a further one knows its
    earlier calls again. An
    input that is refused counts as it came.
    """
    try:
        asked = call.operation.adapter.validate_json(call.data, strict=True)
        given = {
            field.name: value
            for field in fields(asked)
            if (value := getattr(asked, field.name)) != field.default
        }
        told = orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
    except ValidationError:
        told = call.data
    whole = b"\0".join((call.operation.name.encode(), call.store.encode(), told))
    return int.from_bytes(blake2b(whole, digest_size=DIGEST_BYTES).digest())


def refusal(work: Input, done: Done) -> bytes:
    """The answer to a call whose key stands for another one; b"" where it is the same, or nothing
    is known of the first."""
    asked = asked_of(done.outputs) if work.call is not None else 0
    if work.call is None or not asked or asked == digest_of(work.call):
        return b""
    return error_answer(
        KEY_REUSED,
        f"the Idempotency-Key {work.producer_id.removeprefix(APART)!r} was used in this pipeline "
        "for another operation, store or input, and nothing was done; a key stands for one call as long as it "
        "is remembered (worker.producer_id_days): give this one a key of its own",
    )

"""Calls: an operation is carried out on a store, and what comes of it is an answer, also where it
is refused."""

from collections.abc import Callable
from itertools import count

import orjson
from pydantic import ValidationError

from bus.call import REFUSED, error_answer
from memory.errors import Refused
from memory.ids import derive_guid, time_of
from memory.operation import Context, Operation
from memory.recall.languages import DEFAULT_LANGUAGE
from memory.sqlite.store import Store
from pipelines.plan import Plan
from pipelines.rules import in_a_line
from worker.inputs import Call, Input

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

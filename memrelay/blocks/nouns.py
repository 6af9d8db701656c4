"""The operations as methods of a call: `call.records.create("tea")` in a plain block, and `await
call.records.create("tea")` in an async one.

A method runs in the open transaction of the block, so its changes are committed with the message or
not at all. Loaded with the first such call.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from memrelay.blocks.memory_args import NO_MEMORY_ID, make_context, naming_call, retry_when_ready
from memrelay.client.methods import ASYNC, EMBEDDED, Interface, Noun, find_noun_class
from memrelay.memory.engine.memory_id import built_in_name
from memrelay.memory.errors import PolicyStop, Refused, VectorPending
from memrelay.memory.operations import AS_OF, DRY_RUN, Operation
from memrelay.memory.stopped_writes import read_stopped
from memrelay.pipelines.rules import in_a_line

if TYPE_CHECKING:
    from memrelay.blocks.async_call import AsyncCall
    from memrelay.blocks.contract import Call

PRIVILEGED = ("admin", "review")


def find_noun(call: "Call", name: str) -> Noun:
    """Return the operations on a noun for a plain block. Raises AttributeError."""
    return _make_noun(call, name, EMBEDDED, partial(_run, call))


def find_async_noun(call: "AsyncCall", name: str) -> Noun:
    """Return the operations on a noun for an async block. Raises AttributeError."""
    return _make_noun(call, name, ASYNC, partial(_operate, call))


def _make_noun(call: object, name: str, interface: Interface, run: Callable[..., Any]) -> Noun:
    noun_class = None if name.startswith("_") else find_noun_class(interface, name)
    if noun_class is None:
        raise AttributeError(f"{type(call).__name__!r} object has no attribute {name!r}")
    return noun_class(run)


def _run(call: "Call", operation: Operation, arguments: dict[str, Any]) -> Any:
    """Run an operation in the transaction of a block. Raises MemoryFault, and Transient while a
    vector is computed.
    """
    if call.tx is None:
        raise Refused(NO_MEMORY_ID)
    fields = {name: value for name, value in arguments.items() if name != "self"}
    if fields.pop(AS_OF, ""):
        raise Refused(
            f"`as_of` of {operation.name} needs a copy of the store, which a plain block cannot "
            "wait for; use an async block, or the argument `as_of` of memory_read"
        )
    given = _validate(call, operation, fields)
    versions = call.tx.records.versions
    act, origins, last_change = versions.current_act, versions.origins, versions.last_change
    context = replace(
        make_context(call), origin=origins.current, input_id=origins.input_id, reason=act[2]
    )
    try:
        with naming_call(operation.name, lambda: fields):
            output = operation.run(call.tx, given, context)
    except VectorPending as awaited:
        raise retry_when_ready(awaited) from awaited
    except PolicyStop as stop:
        if versions.last_change != last_change:
            call.tx.records.late_stop = stop
        raise
    finally:
        versions.current_act = act
    if call.reads is not None:
        call.reads.note(operation, call.tx, given, output)
    return output


def _validate(call: "Call", operation: Operation, fields: dict[str, Any]) -> Any:
    """Return the input of an operation that a block may call. Raises Refused."""
    if operation.access in PRIVILEGED or fields.get(DRY_RUN):
        raise Refused(
            f"a block cannot call {operation.name} here: operations for admins and reviewers, and "
            f"`{DRY_RUN}`, need the command line or HTTP"
        )
    memory_id = call.tx.memory_id
    if not operation.takes_store and built_in_name(memory_id) != operation.store:
        raise Refused(
            f"{operation.name} uses the store instances/{call.agent.pipeline}/{operation.store}, "
            f"but the memory_id of the block is {memory_id}; change it"
        )
    operation.check_store(memory_id)
    try:
        return operation.adapter.validate_python(fields)
    except ValidationError as error:
        raise Refused(f"{operation.name}: {in_a_line(error)}") from error


async def _operate(call: "AsyncCall", operation: Operation, arguments: dict[str, Any]) -> Any:
    """Call an operation of the pipeline. Raises OperationFailed."""
    fields = {name: value for name, value in arguments.items() if name != "self"}
    as_of = fields.pop(AS_OF, "")
    output = await call.operate(operation.name, fields, as_of=as_of)
    stopped = read_stopped(output) if operation.mutates else None
    return stopped or TypeAdapter(operation.output).validate_python(output)

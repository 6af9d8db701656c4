"""Writes that a policy of the store stops: they are refused, dropped or held for review.

Policies look at each record when it is written (`Feature.admit`), so a call may have changed
something before it is stopped. Then the owner rolls the transaction back and runs the call again,
with the stop known: it is settled without being run.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, TypeVar

import orjson

from memrelay.memory.engine.models import list_hooks, load
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.versions import State
from memrelay.memory.errors import PolicyStop, StoppedTooLate
from memrelay.memory.operations import Context, Operation, known_operation, set_actor
from memrelay.memory.records.kinds import reserved_fault

REVIEW = "review"
Output = TypeVar("Output")


# The calls of one owner that policies have stopped too late, by a key that a repeat of the call has
# too.
Stops = dict[Hashable, PolicyStop]


def run_stoppable(
    stops: Stops, key: Hashable, tx: Store, call: Callable[[], Output]
) -> Output | PolicyStop:
    """Return what a call on a store with policies returns, or how a policy stopped it.

    Raises StoppedTooLate, and what the call raises.
    """
    if key in stops:
        return stops[key]
    before = tx.extent
    try:
        return call()
    except PolicyStop as stop:
        if tx.extent == before:
            return stop
        stops[key] = stop
        raise StoppedTooLate from stop


def settle(stop: PolicyStop, operation: Operation, given: Any, tx: Store, context: Context) -> Any:
    """Return the output of a call that a policy has stopped. Raises PolicyStop if it is refused."""
    set_actor(tx, context)
    for hook in list_hooks("settle"):
        return load(hook)(stop, operation, given, tx, context)
    raise stop


def settle_write(stop: PolicyStop, tx: Store, context: Context) -> Any:
    """Return the output of a write that a policy has stopped in a block.

    A write that waits for review becomes the call of an operation, with the origin of the block.
    Raises PolicyStop.
    """
    origins = tx.records.versions.origins
    context = replace(context, origin=origins.current, input_id=origins.input_id)
    name, given = describe_write(stop) if stop.action == REVIEW else ("records.create", None)
    operation = known_operation(name)
    if given is not None:
        given = operation.adapter.validate_python(given)
    return settle(stop, operation, given, tx, context)


def describe_write(stop: PolicyStop) -> tuple[str, dict[str, Any]]:
    """Return the operation, and its input, that makes the write of a block.

    Raises PolicyStop if there is none.
    """
    if stop.call is not None:
        return stop.call
    new, before = stop.candidate, stop.before
    if reserved_fault(new.kind):
        raise stop
    if before is None:
        position = {"thread": new.thread, "seq": new.seq} if new.thread else {}
        return "records.create", _fields_of(new) | position
    if new.content.startswith(before.content) and new.content != before.content:
        text = new.content.removeprefix(before.content)
        return "records.append", {"guid": new.guid, "content": text, "separator": ""}
    return "records.update", {"guid": new.guid, **_fields_of(new)}


def _fields_of(state: State) -> dict[str, Any]:
    """Return the input fields that `records.create` and `records.update` share."""
    return {
        "content": state.content,
        "kind": state.kind,
        "scope": state.scope,
        "source": state.source,
        "tags": tuple(orjson.loads(state.tags)),
        "key": state.key or "",
        "owner": state.owner or "",
        "data": orjson.loads(state.data or "{}"),
        "in_context": bool(state.in_context),
        "expires_at": str(state.expires_at or ""),
        "valid_from": str(state.valid_from or ""),
        "valid_to": str(state.valid_to or ""),
    }

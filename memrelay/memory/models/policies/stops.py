"""Settles calls that a policy has stopped."""

from typing import Any

from memrelay.memory.engine.models import list_hooks, load
from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import PolicyStop
from memrelay.memory.models.policies.feature import Policies
from memrelay.memory.operations import Context, Operation
from memrelay.memory.stopped_writes import Dropped


def settle(
    stop: PolicyStop, operation: Operation, given: Any, tx: Transaction, context: Context
) -> Any:
    """Return the output of a stopped call, and note the verdict.

    Raises PolicyStop: the write is refused, or nothing can keep it for a review.
    """
    tx.table(Policies).note_stop(stop)
    if stop.action == "drop":
        return Dropped(stop.policy)
    hooks = list_hooks("propose") if stop.action == "review" and given is not None else []
    for hook in hooks:
        return load(hook)(tx, stop, operation, given, context)
    raise stop

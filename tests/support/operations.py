"""Operations that fail, for workers of tests."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, all_operations, operation
from memrelay.memory.operations.records_create import CreateRecord, create
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class Nothing:
    """No input."""


def register_test_operations() -> None:
    """Register the operations once."""
    operation("trials.break", access="write", mutates=True)(_break)
    operation("trials.stumble", access="read", mutates=False)(_stumble)
    all_operations.cache_clear()


def _break(tx: Transaction, nothing: Nothing, context: Context) -> None:
    """Change something, then raise."""
    create(tx, CreateRecord("half done"), context)
    raise ZeroDivisionError("broken")


def _stumble(tx: Transaction, nothing: Nothing, context: Context) -> None:
    """Raise an error."""
    raise ZeroDivisionError("stumbled")

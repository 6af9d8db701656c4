"""Operations that fail, for workers of tests."""

from dataclasses import dataclass

from memrelay.memory.engine.store import Transaction
from memrelay.memory.operations import Context, all_operations, operation
from memrelay.memory.records.reading import ReadInput, read
from memrelay.memory.records.writing import CreateRecord, create


@dataclass(frozen=True, slots=True)
class Nothing:
    """No input."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Another store."""

    other: str
    write: bool = False


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of the other store."""

    items: tuple[str, ...]


def register_test_operations() -> None:
    """Register the operations once."""
    operation("trials.break", access="write", mutates=True)(_break)
    operation("trials.stumble", access="read", mutates=False)(_stumble)
    operation("trials.compare", access="write", mutates=True)(_compare)
    operation("trials.look", access="read", mutates=False)(_look)
    all_operations.cache_clear()


def _break(tx: Transaction, nothing: Nothing, context: Context) -> None:
    """Change something, then raise."""
    create(tx, CreateRecord("half done"), context)
    raise ZeroDivisionError("broken")


def _compare(tx: Transaction, given: Beside, context: Context) -> Contents:
    """Create a record, and return the contents of another store."""
    create(tx, CreateRecord("compared"), context)
    return _look(tx, given, context)


def _look(tx: Transaction, given: Beside, context: Context) -> Contents:
    """Return the contents of another store."""
    other = context.open_for_read(given.other)
    if given.write:
        other.records.delete_all({})
    return Contents(tuple(record.content for record in read(other, ReadInput(1 << 20))))


def _stumble(tx: Transaction, nothing: Nothing, context: Context) -> None:
    """Raise an error."""
    raise ZeroDivisionError("stumbled")

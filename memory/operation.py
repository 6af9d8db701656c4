"""Operations: everything that memory can do, declared once, so that each face finds it and none makes its own.

An operation is a plain function `(tx, input) -> output` that runs in a database thread, inside the store's transaction.
"""
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

Access = Literal["search", "read", "write", "append", "delete", "admin"]
Run = TypeVar("Run", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Operation:
    """What a face needs to know of an operation."""

    name: str        # "records.write"
    access: Access   # what the caller must be allowed
    mutates: bool
    run: Callable[..., Any]


OPERATIONS: dict[str, Operation] = {}


def operation(name: str, *, access: Access, mutates: bool) -> Callable[[Run], Run]:
    """Declares the function below as the operation `name`; a name used twice is an error."""
    def declare(run: Run) -> Run:
        if name in OPERATIONS:
            raise ValueError(f"two operations are named {name!r}")
        OPERATIONS[name] = Operation(name, access, mutates, run)
        return run
    return declare

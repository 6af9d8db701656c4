"""The answer of the memory tool, and the error that a command ends with."""

from dataclasses import dataclass
from typing import Any

from memrelay.memory.errors import (
    Denied,
    RecordNotFound,
    Refused,
    ResultTooLarge,
    TooManyKeys,
    ValueTooLarge,
    VersionConflict,
)

BAD_REQUEST = 400
# The HTTP status of each refusal on Robutler's paths. The first class that matches counts.
STATUSES: tuple[tuple[type[Refused], int], ...] = (
    (Denied, 403),
    (RecordNotFound, 404),
    (VersionConflict, 409),
    (ValueTooLarge, 413),
    (ResultTooLarge, 413),
    (TooManyKeys, 429),
)


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer to a tool call."""

    value: Any
    """The answer for the model: a text or a JSON value."""
    is_error: bool = False
    """Whether the command failed. Nothing changed then."""


class ToolError(Exception):
    """The command ends with this text as its error."""


def failure(verb: str, refused: Refused) -> ToolError:
    """Return the error of a command that failed for a reason without a text of its own."""
    return failure_of(verb, status_of(refused))


def failure_of(verb: str, status: int) -> ToolError:
    """Return the error of a command that failed with an HTTP status."""
    return ToolError(f"Memory {verb} failed: {status}")


def status_of(refused: Refused) -> int:
    """Return the HTTP status of a refusal."""
    found = (status for kind, status in STATUSES if isinstance(refused, kind))
    return next(found, BAD_REQUEST)

"""The deletion of several records of agent memory by their ids."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.records.view import Guid, Reason

# Records that one call deletes.
MAX_DELETED = 1000


@dataclass(frozen=True, slots=True)
class DeleteMany:
    """The records to delete."""

    ids: Annotated[tuple[Guid, ...], Field(max_length=MAX_DELETED)]
    """Their ids."""
    reason: Reason = ""
    """The reason, kept in the history."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a deletion."""

    deleted: int
    """The number of records that existed and were deleted."""

"""records.erasures: lists past erasures and whether they are complete."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.timestamps import Moment, format_time

MOST = 1000


@dataclass(frozen=True, slots=True)
class ListErasures:
    """The number of erasures to list."""

    limit: Annotated[int, Field(ge=1, le=MOST)] = 50
    """The maximum number."""


@dataclass(frozen=True, slots=True)
class ErasureView:
    """The erasures of one call."""

    number: int
    asked_at: Moment
    ended_at: Moment | None
    """When the data was gone everywhere; null while the erasure continues."""
    actor: str
    """The caller."""
    reason: str
    """The reason that was given."""
    records: int
    versions: int
    """Earlier states."""
    replies: int
    """Replies kept for replays, and messages that waited in the store."""
    messages: int
    """Messages in logs and inputs."""
    letters: int
    """Dead letters."""
    left_over: str
    """What could not be erased, and why; empty if everything was."""


@dataclass(frozen=True, slots=True)
class ErasureList:
    """The erasures, newest first."""

    items: tuple[ErasureView, ...]


@operation("records.erasures", access="admin", mutates=False)
def list_erasures(tx: Transaction, wanted: ListErasures, context: Context) -> ErasureList:
    """List erasures, newest first: how much, by whom and why, without the erased data."""
    return ErasureList(
        tuple(
            ErasureView(
                one.n,
                format_time(one.asked_at),
                None if one.ended_at is None else format_time(one.ended_at),
                one.actor,
                one.reason,
                one.records,
                one.versions,
                one.replies,
                one.messages,
                one.letters,
                one.left_over,
            )
            for one in tx.erasures.every(wanted.limit)
        )
    )

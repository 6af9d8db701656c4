"""records.erasures: what was erased, and whether it is gone everywhere."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.timestamps import Moment, as_time

MOST = 1000


@dataclass(frozen=True, slots=True)
class ListErasures:
    """How many of them."""

    limit: Annotated[int, Field(ge=1, le=MOST)] = 50
    """At most."""


@dataclass(frozen=True, slots=True)
class ErasureView:
    """What was erased by one call."""

    number: int
    asked_at: Moment
    ended_at: Moment | None
    """When it was gone everywhere; null while it is not."""
    actor: str
    """Who asked."""
    reason: str
    """Why, if that was said."""
    records: int
    versions: int
    """Earlier states."""
    replies: int
    """Replies kept for replays, and messages that waited in the store."""
    messages: int
    """In logs and inputs."""
    letters: int
    """Dead letters."""
    left_over: str
    """What could not be reached, and why; empty for nothing."""


@dataclass(frozen=True, slots=True)
class ErasureList:
    """The newest first."""

    items: tuple[ErasureView, ...]


@operation("records.erasures", access="admin", mutates=False)
def list_erasures(tx: Transaction, wanted: ListErasures, context: Context) -> ErasureList:
    """Tells what was erased, the newest first: how much, by whom and why, and nothing of what it
    was."""
    return ErasureList(
        tuple(
            ErasureView(
                one.n,
                as_time(one.asked_at),
                None if one.ended_at is None else as_time(one.ended_at),
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

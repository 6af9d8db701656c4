"""records.erase: erases records permanently, with their history and all quotes of them."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.engine.conditions import Conditions, compiled
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.errors import Refused
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.filters import Filter
from memrelay.memory.records.view import Guid, Reason

NAME = "records.erase"
MOST = 1000  # guids per call


@dataclass(frozen=True, slots=True)
class EraseRecords:
    """The records to erase: all that meet any of these conditions. At least one is required."""

    guids: Annotated[tuple[Guid, ...], Field(max_length=MOST)] = ()
    """Records with these guids."""
    filter: Filter | None = None
    """Records that pass this filter now, or passed it when they were deleted; `{}` matches all."""
    text: Annotated[str, Field(max_length=65_536)] = ""
    """Records that contain exactly this text in any kept state, and messages that contain it."""
    reason: Reason = ""
    """The reason, which is kept. It must not contain what is to be erased."""


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased from the store. records.erasures reports the rest."""

    records: int
    """The number of records."""
    versions: int
    """The number of their earlier states."""
    number: int
    """The number of the erasure in records.erasures."""


@operation(NAME, access="admin", mutates=True, erases=True)
def erase(tx: Transaction, target: EraseRecords, context: Context) -> Erased:
    """Erase records permanently, including deleted and expired ones.

    Messages, replies and dead letters that quote them are erased afterwards, and the files are
    rewritten. records.erasures reports when that is done.

    Raises Refused: when no condition is given.
    """
    if not (target.guids or target.text) and target.filter is None:
        raise Refused(
            "no condition selects records to erase; give `guids`, a `filter` ({} matches all) "
            "or a `text`"
        )
    conditions = None if target.filter is None else Conditions(given=compiled(target.filter))
    found = tx.erasures.matching(target.guids, conditions, target.text)
    about = context.now_ms, context.actor, target.reason
    records, versions = tx.erasures.erase(found, target.text, about)
    return Erased(records, versions, tx.erasures.every(1)[0].n)


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

"""records.erase: takes records away for good, with their histories, and whatever else quotes
them."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.errors import Refused
from memrelay.memory.filter.input import Filter
from memrelay.memory.operation import Context, operation
from memrelay.memory.records.view import Guid, Reason
from memrelay.memory.sqlite.filters import Conditions, compiled
from memrelay.memory.sqlite.store import Transaction

NAME = "records.erase"
MOST = 1000  # guids of a call


@dataclass(frozen=True, slots=True)
class EraseRecords:
    """Which records: all that meet any of these. One at least must be given."""

    guids: Annotated[tuple[Guid, ...], Field(max_length=MOST)] = ()
    """Those with these ids."""
    filter: Filter | None = None
    """Those that pass this filter as they are, or as they were when they were deleted; `{}` is
    all."""
    text: Annotated[str, Field(max_length=65_536)] = ""
    """Those that have this text, exactly so, in any state that is kept; and each message that has
    it."""
    reason: Reason = ""
    """Why; kept, so say nothing in it that is to be erased."""


@dataclass(frozen=True, slots=True)
class Erased:
    """What went from the store; records.erasures tells of the rest."""

    records: int
    """How many records."""
    versions: int
    """How many of their earlier states."""


@operation(NAME, access="admin", mutates=True)
def erase(tx: Transaction, unwanted: EraseRecords, context: Context) -> Erased:
    """Erases records for good, deleted and expired ones too: nothing brings them back.

    Messages, replies and dead letters that quote them follow, and the files are rewritten;
    records.erasures says when that is
    done. Raises Refused where nothing is given.
    """
    if not (unwanted.guids or unwanted.text) and unwanted.filter is None:
        raise Refused(
            "say what is to be erased: records by their guids or a filter ({} is for all), or what has a text"
        )
    conditions = None if unwanted.filter is None else Conditions(given=compiled(unwanted.filter))
    found = tx.erasures.matching(unwanted.guids, conditions, unwanted.text)
    return Erased(
        *tx.erasures.erase(found, unwanted.text, (context.now_ms, context.actor, unwanted.reason))
    )

"""records.erase: erases records permanently, with their history and all quotes of them."""

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

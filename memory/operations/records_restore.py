"""records.restore: undoes a deletion, or gives a record an earlier state of its own again."""

from dataclasses import dataclass

from memrelay.memory.errors import NotThere, Refused
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_get import fetch, fitting
from memrelay.memory.operations.records_history import Number
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.records.view import Guid, Reason, RecordView, Versions, view
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.sqlite.versions import State
from memrelay.memory.timestamps import change_ms


@dataclass(frozen=True, slots=True)
class RestoreRecord:
    """Which record, and which of its states."""

    guid: Guid
    """The record's id."""
    number: Number | None = None
    """The state, as records.history numbers them; without one a deletion is undone."""
    reason: Reason = ""
    """Why; kept in the history."""
    if_version: Versions = ()
    """Only where the record has one of these versions, or had when it was deleted."""


@operation("records.restore", access="write", mutates=True)
def restore(tx: Transaction, wanted: RestoreRecord, context: Context) -> RecordView:
    """Undoes a deletion, or gives a record an earlier state again; what it is before that is kept,
    as with any change.

    When it expires stays as it was last. A record that was deleted comes after all others in lists,
    and in its thread at its
    old place. Raises NotThere where the state is not kept, Refused where nothing was deleted,
    VersionDiffers, and
    ResultTooLarge where it does not fit into an answer.
    """
    place = tx.records.by_guid(wanted.guid)
    if place is None:
        last = _deleted(tx, wanted.guid)
        state = _chosen(tx, wanted, last, there=False)
        tx.records.bring_back(last, _checked(state, wanted, last, context))
    elif wanted.number is None:
        raise Refused(
            f"record {wanted.guid} is not deleted: name the `number` of the state that it is to have again; "
            "records.history tells them"
        )
    else:
        state = _checked(_chosen(tx, wanted, place.whole, there=True), wanted, place.whole, context)
        if state.number != place.whole.number:
            tx.records.revert(place, state)
    return view(*fetch(tx, wanted.guid))


def _deleted(tx: Transaction, guid: str) -> State:
    """The last state of a record that was deleted. Raises NotThere."""
    deleted = tx.records.versions.deleted(guid)
    if deleted is None:
        raise NotThere(
            f"nothing is kept of a record {guid[:128]!r} in {tx.memory_id}: there was none, it has expired, or was "
            "deleted too long ago"
        )
    return deleted.state


def _chosen(tx: Transaction, wanted: RestoreRecord, now: State, *, there: bool) -> State:
    """The state that is wanted of a record, whose last one is `now`. Raises NotThere."""
    if wanted.number in (None, now.number):
        return now
    below = (now.content, now.number) if there else ()
    kept = tx.records.versions.of(wanted.guid, *below)
    found = next(
        (one.state for one in kept if one.there and one.state.number == wanted.number), None
    )
    if found is None:
        raise NotThere(
            f"state {wanted.number} of record {wanted.guid} is not kept, or the record was deleted then; "
            "records.history tells those that are"
        )
    return found


def _checked(state: State, wanted: RestoreRecord, now: State, context: Context) -> State:
    """The state as it is to be again. Raises VersionDiffers and ResultTooLarge, before anything is
    changed."""
    check_version(now.record, now.further, wanted.if_version)
    fitting(state.record, state.further, context)
    return state._replace(updated_at=change_ms(context.now_ms, now.updated_at))

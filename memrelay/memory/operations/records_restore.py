"""records.restore: restores a deleted record, or an earlier state of a record."""

from dataclasses import dataclass

from memrelay.memory.errors import KeyTaken, RecordNotFound, Refused
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_get import check_fits, fetch
from memrelay.memory.operations.records_history import Number
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.records.view import Guid, Reason, RecordView, Versions, view
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.sqlite.versions import State
from memrelay.memory.timestamps import next_change_ms


@dataclass(frozen=True, slots=True)
class RestoreRecord:
    """The record and the state to restore."""

    guid: Guid
    """The guid of the record."""
    number: Number | None = None
    """The number of the state in records.history. Omit it to undo a deletion."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Restore only if the record has one of these versions, or had it when it was deleted."""


@operation("records.restore", access="write", mutates=True)
def restore(tx: Transaction, wanted: RestoreRecord, context: Context) -> RecordView:
    """Restore a deleted record, or an earlier state. The present state is kept in the history.

    The expiry time stays as it last was. A restored record comes last in lists, and keeps its
    position in its thread.

    Raises RecordNotFound: when the state is not kept.
    Raises Refused: when no `number` is given and the record is not deleted, or another record has
    the key of an item.
    Raises VersionConflict: when the record has another version.
    Raises ResultTooLarge: when the record does not fit into an answer.
    """
    place = tx.records.by_guid(wanted.guid)
    if place is None:
        last = _deleted(tx, wanted.guid)
        state = _prepare(_find_state(tx, wanted, last, there=False), wanted, last, context)
        _refuse_taken_key(tx, state)
        tx.records.bring_back(last, state)
    elif wanted.number is None:
        raise Refused(
            f"record {wanted.guid} is not deleted: name the `number` of the state to restore; "
            "records.history lists the states"
        )
    else:
        state = _prepare(
            _find_state(tx, wanted, place.whole, there=True), wanted, place.whole, context
        )
        if state.number != place.whole.number:
            _refuse_taken_key(tx, state)
            tx.records.revert(place, state)
    return view(*fetch(tx, wanted.guid))


def _deleted(tx: Transaction, guid: str) -> State:
    """Return the last state of a deleted record. Raises RecordNotFound."""
    deleted = tx.records.versions.deleted(guid)
    if deleted is None:
        raise RecordNotFound(
            f"nothing is kept of a record {guid[:128]!r} in {tx.memory_id}: it never existed, "
            "has expired, or was deleted too long ago"
        )
    return deleted.state


def _find_state(tx: Transaction, wanted: RestoreRecord, now: State, *, there: bool) -> State:
    """Return the wanted state of a record, given its last one. Raises RecordNotFound."""
    if wanted.number in (None, now.number):
        return now
    below = (now.content, now.number) if there else ()
    kept = tx.records.versions.of(wanted.guid, *below)
    found = next(
        (one.state for one in kept if one.there and one.state.number == wanted.number), None
    )
    if found is None:
        raise RecordNotFound(
            f"state {wanted.number} of record {wanted.guid} is not kept, or is a deletion; "
            "records.history lists the kept states"
        )
    return found


def _refuse_taken_key(tx: Transaction, state: State) -> None:
    """Raise KeyTaken if another record has the key of the record to restore."""
    if (holder := tx.key_holder(state)) is not None:
        raise KeyTaken(
            f"key {state.key!r} of {state.scope} belongs to record {holder.guid} now; "
            "rename or delete that record first"
        )


def _prepare(state: State, wanted: RestoreRecord, now: State, context: Context) -> State:
    """Return the state to restore, with a new change time.

    Raises VersionConflict and ResultTooLarge before anything is changed.
    """
    check_version(now.record, now.further, wanted.if_version)
    check_fits(state.record, state.further, context)
    return state._replace(updated_at=next_change_ms(context.now_ms, now.updated_at))

"""records.delete: deletes a record by its guid. The block can also delete all of a kind."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time, next_change_ms
from memrelay.memory.engine.versions import State, Version
from memrelay.memory.errors import KeyTaken, RecordNotFound, Refused, ResultTooLarge
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.kinds import is_agent_memory, refuse_reserved
from memrelay.memory.records.reading import RECORD_BYTES, check_fits, fetch, parse_cursor, take_page
from memrelay.memory.records.view import Guid, Reason, RecordView, Versions, view
from memrelay.memory.records.writing import check_version

Number = Annotated[int, Field(ge=1, le=LARGEST)]


@dataclass(frozen=True, slots=True)
class DeleteInput:
    """The record with `guid`, or all records of `kind` if `guid` is empty."""

    guid: str = ""
    kind: str = ""
    # Whether the guid may be that of an agent's memory.
    with_agents: bool = False


def delete(tx: Transaction, target: DeleteInput) -> int:
    """Delete the records and return their number. Raises Refused if the kind is reserved."""
    refuse_reserved(target.kind)
    if not target.guid:
        return tx.records.delete_all({"kind": target.kind}) if target.kind else 0
    found = tx.records.by_guid(target.guid)
    hides = tx.records.has_agent_memory and not target.with_agents
    if found is None or (hides and is_agent_memory(found.whole.kind)):
        return 0
    tx.records.delete(found)
    return 1


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """The record to delete."""

    guid: Guid
    """The guid of the record."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Delete only if the record has one of these versions."""


@operation("records.delete", access="delete", mutates=True)
def delete_record(tx: Transaction, target: DeleteRecord, context: Context) -> None:
    """Delete one record. records.restore can undo it.

    Raises RecordNotFound: when the record does not exist.
    Raises VersionConflict: when the record has another version.
    """
    check_version(*fetch(tx, target.guid), target.if_version)
    delete(tx, DeleteInput(target.guid, with_agents=True))


@dataclass(frozen=True, slots=True)
class RecordHistory:
    """The record, and the page of its history."""

    guid: Guid
    """The guid of the record, which may be deleted."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 50
    """The maximum number of states. A page of long states may have fewer."""
    cursor: Annotated[str, Field(max_length=19)] = ""
    """The `next_cursor` of the previous page."""


@dataclass(frozen=True, slots=True)
class RecordState:
    """A past or present state of a record."""

    number: int
    """1 for the state at creation, increased by each change."""
    record: RecordView | None
    """The record in this state; null if it was deleted."""
    change: Literal["update", "append", "delete", "restore"] | None
    """The change that ended this state; null for the present state, as are the fields below."""
    changed_at: Moment | None
    """The time of the change."""
    actor: str | None
    """Who made the change: an agent, the name of a key, a program."""
    reason: str | None
    """The reason that was given, if any."""


@dataclass(frozen=True, slots=True)
class History:
    """A page of states, latest first."""

    items: tuple[RecordState, ...]
    next_cursor: str | None
    """The cursor of the next page; null on the last page."""
    total: int
    """The number of states on all pages."""


@operation("records.history", access="read", mutates=False)
def history(tx: Transaction, wanted: RecordHistory, context: Context) -> History:
    """Return the states of a record, latest first, with the change that ended each state.

    Raises RecordNotFound: when no state is kept.
    Raises Refused: when the cursor is invalid.
    Raises ResultTooLarge: when a state does not fit into an answer.
    """
    before, total = parse_cursor(wanted.cursor), tx.records.versions.count_of(wanted.guid) + 1
    states = (
        state for state in _all_states(tx, wanted.guid) if before is None or state.number < before
    )
    items, more = take_page(states, wanted.limit, context.result_bytes)
    for state in items:
        _check_size(state, context.result_bytes)
    return History(tuple(items), str(items[-1].number) if more else None, total)


def _check_size(state: RecordState, most: int) -> None:
    """Raise ResultTooLarge with the cursor to continue after the state."""
    was = state.record
    size = (
        RECORD_BYTES + len(was.content) + len(was.source) + len(str(was.tags)) + len(str(was.data))
        if was
        else 0
    )
    if was and size > most:
        raise ResultTooLarge(
            f"state {state.number} of record {was.guid} has {size} bytes, and an answer has at "
            f"most {most}; cursor {state.number} continues after it"
        )


def _all_states(tx: Transaction, guid: str) -> Iterator[RecordState]:
    """Yield the present state and the earlier ones, latest first. Raises RecordNotFound."""
    place = tx.records.by_guid(guid)
    if place is not None:
        yield RecordState(
            place.whole.number,
            view(place.whole.record, place.whole.further),
            None,
            None,
            None,
            None,
        )
        earlier = tx.records.versions.of(guid, place.content, place.whole.number)
        yield from map(_past_state, earlier)
        return
    deleted = tx.records.versions.deleted(guid)
    if deleted is None:
        raise RecordNotFound(f"nothing is kept of a record {guid[:128]!r} in {tx.memory_id}")
    yield RecordState(deleted.state.number + 1, None, None, None, None, None)
    yield from map(_past_state, tx.records.versions.of(guid))


def _past_state(version: Version) -> RecordState:
    state, act = version.state, version.act
    was = view(state.record, state.further) if version.there else None
    return RecordState(
        state.number, was, version.what, format_time(act.now_ms), act.actor, act.reason or None
    )


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

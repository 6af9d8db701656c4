"""Deletion, the history of records, restoring, and permanent erasure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from memrelay.memory.engine.erasures import Erasure
from memrelay.memory.engine.filter_sql import Conditions, compiled
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time, next_change_ms
from memrelay.memory.engine.versions import State, Version
from memrelay.memory.errors import KeyTaken, RecordNotFound, Refused, ResultTooLarge
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.filters import Filter
from memrelay.memory.records.kinds import is_agent_memory, refuse_reserved
from memrelay.memory.records.optimistic_locking import check_version
from memrelay.memory.records.paging import (
    MOST,
    RECORD_BYTES,
    Cursor,
    Limit,
    parse_cursor,
    take_page,
)
from memrelay.memory.records.reading import check_fits, fetch
from memrelay.memory.records.view import Guid, Reason, RecordView, Versions, view

Number = Annotated[int, Field(ge=1, le=LARGEST)]


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
def delete_record(tx: Transaction, request: DeleteRecord, context: Context) -> None:
    """Delete one record. records.restore can undo it.

    Raises RecordNotFound: when the record does not exist.
    Raises VersionConflict: when the record has another version.
    """
    check_version(*fetch(tx, request.guid), request.if_version)
    delete(tx, DeleteInput(request.guid, with_agents=True))


@dataclass(frozen=True, slots=True)
class DeleteInput:
    """The record with `guid`, or all records of `kind` if `guid` is empty."""

    guid: str = ""
    kind: str = ""
    # Whether the guid may be that of an agent's memory.
    with_agents: bool = False


def delete(tx: Transaction, request: DeleteInput) -> int:
    """Delete the records and return their number. Raises Refused if the kind is reserved."""
    refuse_reserved(request.kind)
    if not request.guid:
        return tx.records.delete_all({"kind": request.kind}) if request.kind else 0
    stored = tx.records.by_guid(request.guid)
    hides = tx.records.has_agent_memory and not request.with_agents
    if stored is None or (hides and is_agent_memory(stored.state.kind)):
        return 0
    tx.records.delete(stored)
    return 1


@dataclass(frozen=True, slots=True)
class RecordHistory:
    """The record, and the page of its history."""

    guid: Guid
    """The guid of the record, which may be deleted."""
    limit: Limit = 50
    """The maximum number of states. A page of long states may have fewer."""
    cursor: Cursor = ""
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


@operation("records.history", access="read", mutates=False, takes_as_of=True)
def history(tx: Transaction, request: RecordHistory, context: Context) -> History:
    """Return the states of a record, latest first, with the change that ended each state.

    Raises RecordNotFound: when no state is kept.
    Raises Refused: when the cursor is invalid.
    Raises ResultTooLarge: when a state does not fit into an answer.
    """
    before, total = parse_cursor(request.cursor), tx.records.versions.count_of(request.guid) + 1
    states = _all_states(tx, request.guid)
    earlier = (state for state in states if before is None or state.number < before)
    items, has_more = take_page(earlier, request.limit, context.result_bytes)
    for state in items:
        _check_size(state, context.result_bytes)
    return History(tuple(items), str(items[-1].number) if has_more else None, total)


def _all_states(tx: Transaction, guid: str) -> Iterator[RecordState]:
    """Yield the present state and the earlier ones, latest first. Raises RecordNotFound."""
    stored, versions = tx.records.by_guid(guid), tx.records.versions
    if stored is not None:
        state = stored.state
        present = view(state.record, state.extras)
        yield RecordState(state.number, present, None, None, None, None)
        yield from map(_past_state, versions.of(guid, state.content, state.number))
        return
    deleted = versions.deleted(guid)
    if deleted is None:
        raise RecordNotFound(f"nothing is kept of a record {guid[:128]!r} in {tx.memory_id}")
    yield RecordState(deleted.state.number + 1, None, None, None, None, None)
    yield from map(_past_state, versions.of(guid))


def _past_state(version: Version) -> RecordState:
    state, act = version.state, version.act
    record = view(state.record, state.extras) if version.there else None
    return RecordState(
        state.number, record, version.what, format_time(act.now_ms), act.actor, act.reason or None
    )


def _check_size(state: RecordState, most: int) -> None:
    """Raise ResultTooLarge with the cursor to continue after the state."""
    record = state.record
    if record is None:
        return
    texts = len(record.content) + len(record.source)
    size = RECORD_BYTES + texts + len(str(record.tags)) + len(str(record.data))
    if size > most:
        raise ResultTooLarge(
            f"state {state.number} of record {record.guid} has {size} bytes, and an answer has at "
            f"most {most}; cursor {state.number} continues after it"
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
def restore(tx: Transaction, request: RestoreRecord, context: Context) -> RecordView:
    """Restore a deleted record, or an earlier state. The present state is kept in the history.

    The expiry time stays as it last was. A restored record comes last in lists, and keeps its
    position in its thread.

    Raises RecordNotFound: when the state is not kept.
    Raises Refused: when no `number` is given and the record is not deleted, or another record has
    the key of an item.
    Raises VersionConflict: when the record has another version.
    Raises ResultTooLarge: when the record does not fit into an answer.
    """
    stored = tx.records.by_guid(request.guid)
    if stored is None:
        last = _fetch_deleted(tx, request.guid)
        state = _find_state(tx, request, last, exists=False)
        state = _prepare(state, request, last, context)
        _refuse_taken_key(tx, state)
        tx.records.bring_back(last, state)
    elif request.number is None:
        raise Refused(
            f"record {request.guid} is not deleted: name the `number` of the state to restore; "
            "records.history lists the states"
        )
    else:
        state = _find_state(tx, request, stored.state, exists=True)
        state = _prepare(state, request, stored.state, context)
        if state.number != stored.state.number:
            _refuse_taken_key(tx, state)
            tx.records.revert(stored, state)
    return view(*fetch(tx, request.guid))


def _fetch_deleted(tx: Transaction, guid: str) -> State:
    """Return the last state of a deleted record. Raises RecordNotFound."""
    deleted = tx.records.versions.deleted(guid)
    if deleted is None:
        raise RecordNotFound(
            f"nothing is kept of a record {guid[:128]!r} in {tx.memory_id}: it never existed, "
            "has expired, or was deleted too long ago"
        )
    return deleted.state


def _find_state(tx: Transaction, request: RestoreRecord, last: State, *, exists: bool) -> State:
    """Return the wanted state of a record, given its last one. Raises RecordNotFound."""
    if request.number in (None, last.number):
        return last
    present = (last.content, last.number) if exists else ()
    for version in tx.records.versions.of(request.guid, *present):
        if version.there and version.state.number == request.number:
            return version.state
    raise RecordNotFound(
        f"state {request.number} of record {request.guid} is not kept, or is a deletion; "
        "records.history lists the kept states"
    )


def _prepare(state: State, request: RestoreRecord, last: State, context: Context) -> State:
    """Return the state to restore, with a new change time.

    Raises VersionConflict and ResultTooLarge before anything is changed.
    """
    check_version(last.record, last.extras, request.if_version)
    check_fits(state.record, state.extras, context)
    return state._replace(updated_at=next_change_ms(context.now_ms, last.updated_at))


def _refuse_taken_key(tx: Transaction, state: State) -> None:
    """Raise KeyTaken if another record has the key of the record to restore."""
    if (holder := tx.key_holder(state)) is not None:
        raise KeyTaken(
            f"key {state.key!r} of {state.scope} belongs to record {holder.guid} now; "
            "rename or delete that record first"
        )


NAME = "records.erase"


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
    """The number of records, with the events, key-value pairs and other rows that have the text."""
    versions: int
    """The number of their earlier states."""
    number: int
    """The number of the erasure in records.erasures."""


@operation(NAME, access="admin", mutates=True, erases=True)
def erase(tx: Transaction, request: EraseRecords, context: Context) -> Erased:
    """Erase records permanently, including deleted and expired ones.

    Messages, replies and dead letters that quote them are erased afterwards, and the files are
    rewritten. records.erasures reports when that is done.

    Raises Refused: when no condition is given.
    """
    if not (request.guids or request.text) and request.filter is None:
        raise Refused(
            "no condition selects records to erase; give `guids`, a `filter` ({} matches all) "
            "or a `text`"
        )
    conditions = None if request.filter is None else Conditions(given=compiled(request.filter))
    guids = tx.erasures.matching(request.guids, conditions, request.text)
    about = context.now_ms, context.actor, request.reason
    records, versions = tx.erasures.erase(guids, request.text, about)
    return Erased(records, versions, tx.erasures.every(1)[0].n)


@dataclass(frozen=True, slots=True)
class ListErasures:
    """The number of erasures to list."""

    limit: Limit = 50
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
    """With events, key-value pairs and other rows."""
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
def list_erasures(tx: Transaction, request: ListErasures, context: Context) -> ErasureList:
    """List erasures, newest first: how much, by whom and why, without the erased data."""
    return ErasureList(tuple(map(_view_erasure, tx.erasures.every(request.limit))))


def _view_erasure(erasure: Erasure) -> ErasureView:
    return ErasureView(
        erasure.n,
        format_time(erasure.asked_at),
        None if erasure.ended_at is None else format_time(erasure.ended_at),
        erasure.actor,
        erasure.reason,
        erasure.records,
        erasure.versions,
        erasure.replies,
        erasure.messages,
        erasure.letters,
        erasure.left_over,
    )

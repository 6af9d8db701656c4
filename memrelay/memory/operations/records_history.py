"""records.history: lists the kept states of a record, with who changed them, when and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from memrelay.memory.errors import RecordNotFound, ResultTooLarge
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_list import parse_cursor
from memrelay.memory.operations.records_read import RECORD_BYTES, take_page
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.view import Guid, RecordView, view
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.sqlite.versions import Version
from memrelay.memory.timestamps import Moment, format_time

Number = Annotated[int, Field(ge=1, le=LARGEST)]


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

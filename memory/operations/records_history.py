"""records.history: every state of a record that is kept, the latest first, with who ended it, when
and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from memrelay.memory.errors import NotThere, ResultTooLarge
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_list import place_of_cursor
from memrelay.memory.operations.records_read import RECORD_BYTES, fitting_page
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.view import Guid, RecordView, view
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.sqlite.versions import Version
from memrelay.memory.timestamps import Moment, as_time

Number = Annotated[int, Field(ge=1, le=LARGEST)]


@dataclass(frozen=True, slots=True)
class RecordHistory:
    """Whose history, and which page of it."""

    guid: Guid
    """The record's id, also of one that was deleted."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 50
    """How many states at most; a page of long ones may have fewer."""
    cursor: Annotated[str, Field(max_length=19)] = ""
    """The `next_cursor` of the page before."""


@dataclass(frozen=True, slots=True)
class RecordState:
    """A record as it was, or is."""

    number: int
    """1 as it was made, one more with each change."""
    record: RecordView | None
    """Null where it was deleted."""
    change: Literal["update", "append", "delete", "restore"] | None
    """What ended this state; null where it is as it is now, and then nothing below is said."""
    changed_at: Moment | None
    """When that was."""
    actor: str | None
    """Who did it: an agent, a key's name, a program."""
    reason: str | None
    """What was said to it, if anything."""


@dataclass(frozen=True, slots=True)
class History:
    """A page of states, the latest first."""

    items: tuple[RecordState, ...]
    next_cursor: str | None
    """For the next page; null on the last one."""
    total: int
    """How many states there are on all pages."""


@operation("records.history", access="read", mutates=False)
def history(tx: Transaction, wanted: RecordHistory, context: Context) -> History:
    """Tells what a record was before each of its changes, and what became of it.

    Raises NotThere where nothing is kept of it, Refused for a cursor that is none, and
    ResultTooLarge for a state that does not
    fit into an answer.
    """
    before, total = place_of_cursor(wanted.cursor), tx.records.versions.count_of(wanted.guid) + 1
    states = (
        state for state in _states(tx, wanted.guid) if before is None or state.number < before
    )
    items, more = fitting_page(states, wanted.limit, context.result_bytes)
    for state in items:
        _check_size(state, context.result_bytes)
    return History(tuple(items), str(items[-1].number) if more else None, total)


def _check_size(state: RecordState, most: int) -> None:
    """Raises ResultTooLarge with what to go on with."""
    was = state.record
    size = (
        RECORD_BYTES + len(was.content) + len(was.source) + len(str(was.tags)) + len(str(was.data))
        if was
        else 0
    )
    if was and size > most:
        raise ResultTooLarge(
            f"state {state.number} of record {was.guid} has {size} bytes, and an answer at most {most}; the "
            f"cursor {state.number} goes on after it"
        )


def _states(tx: Transaction, guid: str) -> Iterator[RecordState]:
    """As it is now, and then as it was. Raises NotThere."""
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
        yield from map(_told, tx.records.versions.of(guid, place.content, place.whole.number))
        return
    deleted = tx.records.versions.deleted(guid)
    if deleted is None:
        raise NotThere(f"nothing is kept of a record {guid[:128]!r} in {tx.memory_id}")
    yield RecordState(deleted.state.number + 1, None, None, None, None, None)
    yield from map(_told, tx.records.versions.of(guid))


def _told(version: Version) -> RecordState:
    state, act = version.state, version.act
    was = view(state.record, state.further) if version.there else None
    return RecordState(
        state.number, was, version.what, as_time(act.now_ms), act.actor, act.reason or None
    )

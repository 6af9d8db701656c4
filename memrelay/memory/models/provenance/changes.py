"""The states of a record as changes: what made each of them."""

from typing import NamedTuple

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.versions import Version
from memrelay.memory.records.ids import input_of_guid

CREATE = "create"


class Made(NamedTuple):
    """A state, without its text, and the change that made it."""

    number: int
    # `create`, or What of a version. "" if the change is no longer kept.
    change: str
    # Unix ms, 0 if it is not known.
    at_ms: int
    # The number of its origin, 0 if it is not known.
    origin: int
    # The id of its input, "" if it is not known.
    input_id: str
    # Whether the record existed in this state.
    exists: bool
    # The number of the change in the store, and the reason that was given for it.
    born: int = 0
    reason: str = ""
    # Characters of its text.
    size: int = 0


class _Earlier(NamedTuple):
    """A version without its text."""

    number: int
    there: bool
    origin: int
    created_at: int
    what: str
    ended_ms: int
    ended_by: int
    sequence: int | None
    born: int
    ended: int
    reason: str
    size: int


def list_made(tx: Transaction, guid: str) -> list[Made]:
    """Return the kept states of a record, the latest first, also those in which it was deleted."""
    place, versions = tx.records.by_guid(guid), tx.records.versions
    present = () if place is None else (place.content, place.state.number)
    # Without the texts, of which there may be a hundred.
    earlier = list(map(_without_text, versions.of(guid, *present)))
    made: list[Made] = []
    if place is not None:
        state = place.state
        about = "", 0, 0, None, state.born, 0, "", len(state.content)
        now = _Earlier(state.number, True, state.origin, state.created_at, *about)
        made.append(_make(now, earlier[:1], guid))
    elif earlier:
        last = earlier[0]
        now = last._replace(number=last.number + 1, there=False)
        made.append(_make(now, earlier[:1], guid))
    made += [_make(one, earlier[at + 1 : at + 2], guid) for at, one in enumerate(earlier)]
    return made


def _without_text(version: Version) -> _Earlier:
    state, act = version.state, version.act
    end = version.what, act.now_ms, version.ended_by, version.sequence
    begin = state.number, version.there, state.origin, state.created_at
    size = len(state.content)
    return _Earlier(*begin, *end, state.born, version.ended, act.reason, size)


def _make(state: _Earlier, before: list[_Earlier], guid: str) -> Made:
    """Return a state. `before` has the state before it, if that is kept."""
    if before and before[0].number == state.number - 1:
        last = before[0]
        # A time without the record has the origin of the deletion.
        origin = state.origin if state.there else last.ended_by
        input_id = "" if last.sequence is None else f"{last.ended_ms}-{last.sequence}"
        about = last.what, last.ended_ms, origin, input_id, state.there
        return Made(state.number, *about, last.ended, last.reason, state.size)
    if state.number == 1:
        created_at, input_id = state.created_at, input_of_guid(guid)
        created = CREATE, created_at, state.origin, input_id, state.there, state.born
        return Made(1, *created, size=state.size)
    unknown = "", 0, state.origin, "", state.there, state.born
    return Made(state.number, *unknown, size=state.size)

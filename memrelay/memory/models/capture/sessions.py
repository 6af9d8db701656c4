"""capture.sessions: the captured sessions of a day."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Annotated

from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.time_zones import MaybeZone, find_zone
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.errors import Refused
from memrelay.memory.models.capture.captured_turns import THREAD, CapturedTurn, read_newest
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.paging import Limit
from memrelay.memory.records.view import NameOrNull

MAX_PROMPT = 200  # characters
# Turns that are counted. A day with more shows the sessions of the last ones.
MAX_TURNS = 20_000
Day = Annotated[str, Field(pattern=r"^([0-9]{4}-[0-9]{2}-[0-9]{2})?$")]


@dataclass(frozen=True, slots=True)
class ListSessions:
    """The day, and the user."""

    day: Day = ""
    """The day as 2026-11-29; by default today."""
    user: NameOrNull = ""
    """Only sessions of this user."""
    timezone: MaybeZone = ""
    """The time zone of the day, such as Europe/Berlin; by default that of the pipeline."""
    limit: Limit = 100
    """The maximum number of sessions."""


@dataclass(frozen=True, slots=True)
class CapturedSession:
    """The turns of a session on that day."""

    thread: str
    """The conversation; turns.clear undoes it."""
    tool: str
    session: str
    """The id of the session in the tool."""
    project: str
    branch: str
    turns: int
    """The number of turns on that day."""
    prompt: str
    """The first prompt of that day, at most 200 characters; "" without one."""
    first_at: Moment
    last_at: Moment


@dataclass(frozen=True, slots=True)
class SessionList:
    """The sessions of a day, the last active first."""

    day: str
    items: tuple[CapturedSession, ...]
    has_more: bool
    """Whether the day has more sessions than the limit, or more turns than were counted."""


@operation("capture.sessions", access="read", mutates=False)
def list_sessions(tx: Transaction, request: ListSessions, context: Context) -> SessionList:
    """Return the captured sessions of a day, the last active first.

    It counts the last 20,000 turns of the day, among the 100,000 newest records of the store.

    Raises Refused: when the day does not exist.
    """
    zone = find_zone(request.timezone or context.timezone)
    today = datetime.fromtimestamp(context.now_ms / 1000, zone).date()
    day = _parse(request.day) if request.day else today
    first, end = (
        round(datetime(one.year, one.month, one.day, tzinfo=zone).timestamp() * 1000)
        for one in (day, day + timedelta(days=1))
    )
    found: dict[str, _Turns] = {}
    has_more = False
    for number, turn in enumerate(read_newest(tx, request.user, (first, end)), 1):
        if number > MAX_TURNS:
            has_more = True
            break
        if turn.thread not in found and len(found) == request.limit:
            has_more = True
            continue
        found.setdefault(turn.thread, _Turns(turn)).add(turn)
    return SessionList(day.isoformat(), tuple(one.view() for one in found.values()), has_more)


def _parse(day: str) -> date:
    try:
        parsed = date.fromisoformat(day)
    except ValueError as error:
        raise Refused(f"`day` {day!r} is no day; write it like 2026-11-29") from error
    if not 1970 <= parsed.year < 9999:
        raise Refused(f"`day` {day!r} must be between 1970 and 9998")
    return parsed


class _Turns:
    """The turns of a session on a day, of which only some values are kept."""

    def __init__(self, newest: CapturedTurn) -> None:
        self._newest, self._first_ms, self._count, self._prompt = newest, newest.at_ms, 0, ""

    def add(self, turn: CapturedTurn) -> None:
        """Add the next older turn."""
        self._count += 1
        self._first_ms = turn.at_ms
        if turn.role == "user":
            self._prompt = turn.content[:MAX_PROMPT]

    def view(self) -> CapturedSession:
        """Return the session as the operation shows it."""
        turn = self._newest
        tool, _, session = turn.thread.removeprefix(THREAD).partition("/")
        first_at, last_at = format_time(self._first_ms), format_time(turn.at_ms)
        return CapturedSession(
            *(turn.thread, tool, session, turn.project, turn.branch),
            *(self._count, self._prompt, first_at, last_at),
        )

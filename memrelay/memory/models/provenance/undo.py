"""records.undo: takes back the changes of one writer, import, turn or period.

A call takes one step, and a repeated call changes nothing, so a caller can stop and go on.
A record whose changes are followed by one of another writer is a conflict, and stays as it is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from memrelay.memory.engine.as_of import PastStates
from memrelay.memory.engine.feed import RESTORED
from memrelay.memory.engine.models import list_named_hooks, load
from memrelay.memory.engine.origins import IMPORT, REPLACED, UNDO, Origin
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import next_change_ms, parse_ms
from memrelay.memory.engine.versions import State
from memrelay.memory.errors import PolicyStop, Refused, TooOld
from memrelay.memory.models.provenance.changes import CREATE, Made, list_made
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.view import Guid

NAME = "records.undo"
# Before the first change. States from before their changes were counted have 0.
UNKNOWN = -1
# Records that one call changes or lists, at most, and records that it looks at.
MAX_STEP, MAX_SCANNED = 500, 20_000
# Characters of the states that one step reads. The step ends with the record that reaches it.
MAX_READ = 16_000_000
# The reason of a change that an undo makes: the state that it goes back to, 0 for none.
REASON = re.compile(r"undo to version ([0-9]{1,19})", re.ASCII)
END = "SELECT guid FROM {0} WHERE guid > ? ORDER BY guid LIMIT 1 OFFSET ?"
CHANGED = (
    "SELECT guid FROM (SELECT guid FROM records WHERE guid > :after AND guid <= :end "
    "AND born > :since AND origin IN ({0}) ORDER BY guid LIMIT :most) UNION "
    "SELECT guid FROM (SELECT DISTINCT guid FROM versions WHERE guid > :after AND guid <= :end "
    "AND ended > :since AND (origin IN ({0}) OR ended_by IN ({0})) ORDER BY guid LIMIT :most) "
    "ORDER BY guid LIMIT :most"
)
# Greater than any guid.
LAST = "\U0010ffff"
LATER = "another writer has changed it since"
NOT_KEPT = "the state before is no longer kept"
TAKEN = "another record has its key now"
Text = Annotated[str, Field(max_length=256)]
Time = Annotated[str, Field(max_length=40)]


@dataclass(frozen=True, slots=True)
class UndoChanges:
    """The changes to undo: those that meet all given conditions. At least one is required."""

    key: Text = ""
    """Changes with this API key, by its id, or by the subject of a JWT as in `jwt:agent1`."""
    source: Text = ""
    """Changes of this agent, program or sender, by name or alias."""
    way_in: Text = ""
    """Changes that came in this way: `import:<label>`, `turn:<id>`, `webhook:github`, `rest`, or
    `undo:<label>` to undo an undo."""
    since: Time = ""
    """Changes after this time: RFC 3339 or Unix ms."""
    until: Time = ""
    """Changes up to this time."""
    label: Annotated[str, Field(max_length=200)] = ""
    """A name of the undo, by which it can be undone. All steps have the same one. By default, each
    call is an undo with the id of its input."""
    dry_run: bool = False
    """Whether to only return what the call would do."""
    limit: Annotated[int, Field(ge=1, le=MAX_STEP)] = MAX_STEP
    """The maximum number of records of this step."""
    cursor: Text = ""
    """The `next_cursor` of the previous step."""


@dataclass(frozen=True, slots=True)
class UndoConflict:
    """A record that stays as it is."""

    guid: Guid
    reason: str
    """Why: a later change of another writer, a state that is no longer kept, a taken key, or a rule
    of the store."""
    actor: str
    """The writer of the latest change."""


@dataclass(frozen=True, slots=True)
class Undone:
    """One step."""

    deleted: int
    """The number of records that the changes had created, and that are deleted now."""
    restored: int
    """The number of records that are back in an earlier state."""
    conflicts: tuple[UndoConflict, ...]
    """The records that stay as they are."""
    way_in: str
    """The way in of the undo, with which it can be undone."""
    next_cursor: str | None
    """The cursor of the next step; null after the last one."""


class _Period(NamedTuple):
    """The numbers of the last change before a period, and of the last one in it."""

    since: int
    until: int | None


class _Plan(NamedTuple):
    """The plan for a record: go back to a state, None for no change; or the reason why not."""

    target: Made | None = None
    fault: str = ""
    # Whether the record did not exist before the changes.
    is_new: bool = False


@operation(NAME, access="admin", mutates=True)
def undo(tx: Transaction, request: UndoChanges, context: Context) -> Undone:
    """Take back changes of one writer, import, turn or period, in steps. A repeat has no effect.

    Raises Refused: when no condition is given, or a time is invalid.
    """
    if not (request.key or request.source or request.way_in or request.since or request.until):
        raise Refused(
            "no condition selects changes to undo; give `key`, `source`, `way_in`, `since` or "
            "`until`"
        )
    return _Step(tx, request, context).run()


class _Step:
    """One step of an undo."""

    def __init__(self, tx: Transaction, request: UndoChanges, context: Context) -> None:
        self._tx, self._request, self._context = tx, request, context
        self._origins = tx.records.versions.origins
        self._period = _find_period(tx, request)
        self._known: dict[int, Origin | None] = {}
        self._counts = {"deleted": 0, "restored": 0}
        self._conflicts: list[UndoConflict] = []
        self._way_in = f"{UNDO}{request.label or context.input_id or context.now_ms}"

    def run(self) -> Undone:
        guids, end = self._list_changed()
        self._origins.replace(profile=self._way_in)
        read, last = 0, ""
        for guid in guids:
            if read >= MAX_READ:
                end = last
                break
            made, last = list_made(self._tx, guid), guid
            read += sum(one.size for one in made)
            plan = self._plan(made) if made else _Plan()
            fault = plan.fault
            if not fault and (plan.is_new or plan.target is not None):
                fault = self._go_back(guid, plan)
            if fault:
                latest = self._find(made[0].origin)
                self._conflicts.append(UndoConflict(guid, fault, latest.actor if latest else ""))
        else:
            end = last if len(guids) == self._request.limit else end
        counts = self._counts["deleted"], self._counts["restored"]
        return Undone(*counts, tuple(self._conflicts), self._way_in, end or None)

    def _list_changed(self) -> tuple[list[str], str]:
        """Return the guids of records that the changes may concern, in order, and where the next
        step continues, "" if this is the last one.
        """
        tx, after = self._tx, self._request.cursor
        tx.records.complete()
        ends = [
            tx.connection.execute(END.format(table), (after, MAX_SCANNED)).get
            for table in ("records", "versions")
        ]
        end: str = min(filter(None, ends), default="")
        condition, values = self._origin_condition()
        values |= {"after": after, "end": end or LAST, "since": self._period.since}
        values["most"] = self._request.limit
        found = tx.connection.execute(CHANGED.format(condition), values)
        return [guid for (guid,) in found], end

    def _origin_condition(self) -> tuple[str, dict[str, Any]]:
        """Return SQL for the numbers of the selected origins, and its values."""
        request, clauses, values = self._request, [], dict[str, Any]()
        if request.key:
            clauses.append("key = :key")
            values["key"] = request.key
        if request.source:
            clauses.append(":source IN (actor, sender, agent)")
            values["source"] = request.source
        if request.way_in:
            clauses.append("profile = :way_in")
            values["way_in"] = request.way_in
        if not clauses:
            return "SELECT id FROM origins UNION SELECT 0", values
        return f"SELECT id FROM origins WHERE {' AND '.join(clauses)}", values

    def _find(self, number: int) -> Origin | None:
        if number not in self._known:
            self._known[number] = self._origins.find(number)
        return self._known[number]

    def _is_undo(self, made: Made) -> bool:
        origin = self._find(made.origin)
        return origin is not None and origin.profile.startswith(UNDO)

    def _is_selected(self, made: Made) -> bool:
        """Return whether a change is to be undone. The changes of an undo must be named."""
        request, period = self._request, self._period
        if made.born <= period.since or (period.until is not None and made.born > period.until):
            return False
        origin = self._find(made.origin) or Origin("")
        if origin.profile.startswith(UNDO) and origin.profile != request.way_in:
            return False
        return (
            request.key in ("", origin.key)
            and request.source in ("", origin.actor, origin.sender, origin.agent)
            and request.way_in in ("", origin.profile)
        )

    def _plan(self, made: list[Made]) -> _Plan:
        """Return what to do with a record. `made` has its states, the latest first."""
        chain = list(self._skip_undone(made))
        selected = [self._is_selected(one) for one in chain]
        if not any(selected):
            return _Plan()
        first = next((at for at, one in enumerate(selected) if not one), len(chain))
        if not selected[0] or any(selected[first:]):
            return _Plan(fault=LATER)
        if first < len(chain):
            return _Plan(chain[first])
        if not self._has_created(chain[-1]):
            return _Plan(fault=NOT_KEPT)
        return _Plan(is_new=True)

    def _has_created(self, made: Made) -> bool:
        """Return whether a change has created the record. An import may begin with any number."""
        origin = self._find(made.origin) or Origin("")
        is_import = origin.profile.startswith(IMPORT)
        return origin.verdict != REPLACED and (made.change == CREATE or is_import)

    def _skip_undone(self, made: list[Made]) -> Iterator[Made]:
        """Yield the states without those that an undo has taken back, and without its own, unless
        they are to be undone.
        """
        limit = None
        for one in made:
            if limit is not None and one.number > limit:
                continue
            undone = REASON.fullmatch(one.reason) if self._is_undo(one) else None
            if undone is None or self._is_selected(one):
                yield one
            else:
                limit = int(undone[1])

    def _go_back(self, guid: str, plan: _Plan) -> str:
        """Bring a record to the state before. Return why it cannot be brought there, or ""."""
        tx, context = self._tx, self._context
        number = 0 if plan.target is None else plan.target.number
        is_absent = plan.target is None or not plan.target.exists
        versions, place = tx.records.versions, tx.records.by_guid(guid)
        versions.current_act = (context.now_ms, context.actor, f"undo to version {number}")
        if is_absent:
            if place is not None:
                if fault := _find_model_fault(tx, place.state, is_deletion=True):
                    return fault
                tx.records.delete(place)
                self._counts["deleted"] += 1
            return ""
        present = () if place is None else (place.content, place.state.number)
        kept = list(_states(tx, guid, present, number))
        last = place.state if place is not None else next(iter(kept), None)
        wanted = next((one for one in kept if one.number == number), None)
        if wanted is None or last is None:
            return NOT_KEPT
        wanted = wanted._replace(updated_at=next_change_ms(context.now_ms, last.updated_at))
        if tx.key_holder(wanted) is not None:
            return TAKEN
        if fault := _find_model_fault(tx, wanted, is_deletion=False):
            return fault
        try:
            if place is None:
                tx.records.bring_back(last, wanted)
            else:
                tx.records.overwrite(place, wanted, "restore", event=RESTORED)
        except PolicyStop as stop:
            return str(stop)
        self._counts["restored"] += 1
        return ""


def _find_model_fault(tx: Transaction, state: State, *, is_deletion: bool) -> str:
    """Return why the model of a record does not let it go back, or ""."""
    function = list_named_hooks("undo_faults").get(state.kind)
    return "" if function is None else str(load(function)(tx, state, is_deletion))


def _states(tx: Transaction, guid: str, present: tuple[Any, ...], number: int) -> Iterator[State]:
    """Yield the earlier states in which a record existed, the latest and the one with the number.

    The others are left out, because their texts may be long.
    """
    is_first = True
    for version in tx.records.versions.of(guid, *present):
        if version.there and (is_first or version.state.number == number):
            yield version.state
            is_first = False
        if version.state.number <= number:
            return


def _find_period(tx: Transaction, request: UndoChanges) -> _Period:
    """Return the period in numbers of changes, whose times an import cannot choose."""
    since = _find_change(tx, request.since, "since") if request.since else UNKNOWN
    return _Period(since, _find_change(tx, request.until, "until") if request.until else None)


def _find_change(tx: Transaction, time: str, name: str) -> int:
    """Return the number of the last change at a time or before. Raises Refused."""
    time_ms = parse_ms(time)
    if time_ms is None:
        raise Refused(f"`{name}` must be a time such as 2026-11-28T09:00:00Z, or Unix ms")
    try:
        return tx.table(PastStates).find(str(time_ms)).change
    except TooOld:
        return UNKNOWN

"""The past of a store: the state at a time, and taking a copy of the store back to it.

Changes of records are numbered. Each state of a record knows the change that made it and the one
that ended it, and `moments` has the time of each commit. So the state after a change is every
record and version that began by then and had not ended.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import apsw

from memrelay.memory.engine.models import list_hooks, list_named_hooks, list_row_lines, load
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.engine.timestamps import (
    CHANGE_NUMBER,
    format_time,
    malformed_as_of,
    parse_ms,
)
from memrelay.memory.engine.versions import State, StoredRecord, Version, stored_records
from memrelay.memory.errors import Refused, TooOld

FIRST = "SELECT change, at_ms FROM moments WHERE change >= ? ORDER BY change LIMIT 1"
LAST = "SELECT change, at_ms FROM moments WHERE change <= ? ORDER BY change DESC LIMIT 1"
LARGEST = 2**62
# A store that was restored counts on from the present time (Unix ms), so that no number gets a
# second meaning. The numbers between are of commits that it lost, or of none. No commit has so
# many.
MAX_CHANGES = 10**9
SKIP_CHANGES = "UPDATE commits SET changes = max(changes + 1, ?)"
ADD_MOMENT = (
    "INSERT INTO moments SELECT changes, max(?, (SELECT coalesce(max(at_ms), 0) FROM moments)) "
    "FROM commits"
)
# Records whose state after a change differs from the present one.
TOUCHED = (
    "SELECT guid FROM records WHERE born > ?1 UNION SELECT guid FROM versions WHERE ended > ?1"
)
# A change of these columns keeps the index and the vectors of a record.
METADATA = tuple(
    name for name in State._fields if name not in ("guid", "source", "thread", "content")
)
UPDATE = f"UPDATE records SET {', '.join(f'{name} = ?' for name in METADATA)} WHERE row = ?"
# Records may have had each other's keys.
FREE_KEY = "UPDATE records SET key = NULL WHERE row = ? AND key IS NOT NULL"
# Vectors of texts that came back, which are made again.
TO_EMBED = (
    "INSERT OR IGNORE INTO vectors_todo SELECT place, ?1 FROM vector_sets WHERE ?1 <= looked_at"
)
# Tables with the work of a worker, which a copy must not repeat.
WORK = ("journal", "inbox", "pending", "changes", "inputs")


class PastState(NamedTuple):
    """The state of a store after the change with the number `change`, committed at `at_ms`."""

    change: int
    # Unix ms.
    at_ms: int


class PastStates(StoreTable):
    """The states that a store can be taken back to."""

    def find(self, as_of: str) -> PastState:
        """Return the state at a time, or after a change for `n:NUMBER`.

        A time in the future means the present state. Raises Refused: malformed or unknown, and
        TooOld.
        """
        first = self._find(FIRST, 0)
        if (number := CHANGE_NUMBER.fullmatch(as_of)) is not None:
            found = self._after(int(number[1]), first)
        elif (at_ms := parse_ms(as_of)) is None:
            raise Refused(malformed_as_of(as_of))
        else:
            found = self._at(at_ms, first)
        if found.change < first.change or found.at_ms < first.at_ms:
            raise TooOld(
                f"the state at {as_of} is no longer known; the earliest one is "
                f"{format_time(first.at_ms)} (n:{first.change})"
            )
        return found

    def _after(self, change: int, first: PastState) -> PastState:
        """Return the state after a change."""
        found = self._find(FIRST, change)
        if found.change < change:
            raise Refused(f"change {change} does not exist; the last one is n:{found.change}")
        if first.change <= change < found.change:
            before = self._find(LAST, change)
            if found.change - before.change > MAX_CHANGES:
                raise Refused(
                    f"change {change} was lost when a backup from after n:{before.change} was "
                    "restored; choose a change from before it, or a time"
                )
        return found._replace(change=change)

    def _find(self, sql: str, change: int) -> PastState:
        found: tuple[int, int] = (
            self._connection.execute(sql, (change,)).get
            or self._connection.execute(LAST, (LARGEST,)).get
        )
        return PastState(*found)

    def _at(self, at_ms: int, first: PastState) -> PastState:
        """Return the last state that was committed at `at_ms` or before, by bisection."""
        last = self._find(LAST, LARGEST)
        if last.at_ms <= at_ms:
            return last
        if first.at_ms > at_ms:
            return PastState(-1, at_ms)
        # A change that was committed at `at_ms` or before, and one that was committed later.
        low, high = first.change, last.change
        while high - low > 1:
            middle = (low + high) // 2
            found = self._find(LAST, middle)
            if found.at_ms <= at_ms:
                low = middle
            else:
                high = found.change
        return self._find(LAST, low)


def skip_lost_changes(connection: apsw.Connection, now_ms: int, *, keeps_past: bool) -> None:
    """Prepare a store file that takes the place of another one: its next change gets a number that
    neither had. Without `keeps_past`, its states begin now.
    """
    if not keeps_past:
        connection.execute("DELETE FROM moments")
    connection.execute(SKIP_CHANGES, (now_ms,))
    connection.execute(ADD_MOMENT, (now_ms,))


def take_back(store: Store, change: int) -> int:
    """Take a copy of a store back to its state after a change.

    Return the number of records whose state then is no longer kept. They are left out.
    """
    with store.transaction() as tx:
        connection, records = tx.connection, tx.records
        records.flush()
        records.versions.flush()
        guids = [guid for (guid,) in connection.execute(TOUCHED, (change,))]
        parts = list(_read_parts(connection, guids))
        put_back, revised, incomplete = list[tuple[int, State]](), list[tuple[Any, ...]](), 0
        for guid in guids:
            place = next(stored_records(connection, " WHERE guid = ?", [guid]), None)
            versions = list(_versions(tx, guid, place))
            then = next(
                (one for one in versions if one.there and one.state.born <= change < one.ended),
                None,
            )
            incomplete += then is None and _has_lost_states(versions, change)
            if place is not None and then is not None and _is_same_text(place, then):
                revised.append((*(getattr(then.state, name) for name in METADATA), place.row))
                continue
            if place is not None:
                records.withdraw(place)
            if then is not None:
                put_back.append((then.row, then.state))
        connection.executemany(FREE_KEY, ((values[-1],) for values in revised))
        connection.executemany(UPDATE, revised)
        records.put_back(put_back)
        connection.executemany(TO_EMBED, ((row,) for row, _ in put_back))
        for insert, values in parts:
            connection.execute(insert, values)
        for name in list_hooks("take_back"):
            load(name)(connection, change)
        for name in list_hooks("salvage"):
            connection.execute(load(name))
        _forget_later(connection, change)
        records.versions.last_change = change
        records.prepare_search()
    # What it knows of expiries and of the memory of agents.
    records.reset()
    return incomplete


def _read_parts(
    connection: apsw.Connection, guids: list[str]
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield SQL and values that write the counters of records again. They have no history, and
    triggers delete them with their records.
    """
    tables = {load(hook).TABLE for hook in list_named_hooks("record_parts").values()}
    tables |= {rows.table for rows, lines in list_row_lines() if lines.of_record}
    for table in sorted(tables):
        for guid in guids:
            for row in connection.execute(f"SELECT * FROM {table} WHERE guid = ?", (guid,)):
                holes = ", ".join("?" * len(row))
                sql = f"REPLACE INTO {table} SELECT {holes} WHERE ? IN (SELECT guid FROM records)"
                yield sql, (*row, guid)


def _versions(tx: Store, guid: str, place: StoredRecord | None) -> Iterator[Version]:
    present = () if place is None else (place.content, place.state.number)
    return tx.records.versions.of(guid, *present)


def _has_lost_states(versions: list[Version], change: int) -> bool:
    """Return whether a record had a state after a change that is no longer kept.

    `versions` has the latest first, none of which is that state.
    """
    # An imported version begins and ends with the import.
    own = [one for one in versions if one.state.born < one.ended]
    if any(one.state.born <= change < one.ended for one in own):
        # It was deleted.
        return False
    before = next((one for one in own if one.ended <= change), None)
    if before is not None:
        # The state that followed was replaced by an import.
        return before.what != "delete"
    return bool(own) and own[-1].state.number > 1


def _is_same_text(place: StoredRecord, then: Version) -> bool:
    now = place.state
    return (place.row, now.content, now.source, now.thread) == (
        then.row,
        then.state.content,
        then.state.source,
        then.state.thread,
    )


def _forget_later(connection: apsw.Connection, change: int) -> None:
    """Remove what came after a change, and the work of the worker."""
    connection.execute("DELETE FROM versions WHERE ended > ?", (change,))
    connection.execute("DELETE FROM moments WHERE change > ?", (change,))
    connection.execute("UPDATE commits SET changes = ?", (change,))
    for table in WORK:
        connection.execute(f"DELETE FROM {table}")

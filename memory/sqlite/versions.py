"""Earlier states of records: kept in the transaction that ends them, so that a replay keeps none
twice.

A state whose text the next one begins with is kept without it, so that what grows by many small
additions costs what they do.
Rows wait in memory until something reads them, and until the commit at the latest.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import apsw

from memrelay.memory.records.record import Further, Record
from memrelay.memory.sqlite.expiry import UNEXPIRED, has_expired
from memrelay.memory.sqlite.filters import Conditions, where
from memrelay.memory.sqlite.rows import RowInsert

STATE = (
    "guid, number, scope, kind, source, tags, created_at, updated_at, key, owner, data, expires_at, in_context, "
    "encrypted, thread, seq, crc"
)
KEEP = RowInsert("versions", f"{STATE}, length, content, what, changed_at, actor, reason")
KEEP_ALL = (
    f"INSERT INTO versions({STATE}, length, content, what, changed_at, actor, reason) "
    f"SELECT {STATE}, length(content), content, 'delete', ?, ?, ? FROM records AS r"
)
READ = f"SELECT {STATE}, length, content, what, changed_at, actor, reason FROM versions WHERE guid = ? ORDER BY n DESC"
# Of `versions AS r`: that this is how the record ended, and that it is not there again.
GONE = (
    "r.what = 'delete' AND r.n = (SELECT max(n) FROM versions AS all_of_it WHERE all_of_it.guid = r.guid)",
    "NOT EXISTS (SELECT 1 FROM records AS there WHERE there.guid = r.guid)",
)
EXPIRED = f"SELECT guid FROM versions AS r{where('r.expires_at <= ?', *GONE)} ORDER BY r.expires_at LIMIT ?"
NEXT_TO_EXPIRE = f"SELECT expires_at FROM versions AS r{where('r.expires_at > 0', *GONE)} ORDER BY r.expires_at LIMIT 1"
BEYOND = {"asc": "r.n > ?", "desc": "r.n < ?"}
ORDER = {"asc": " ORDER BY r.n", "desc": " ORDER BY r.n DESC"}
KEPT = 100  # of a record's earlier states; older ones go
TOGETHER = 16  # with so many at once, so that few changes pay for it

What = Literal["update", "append", "delete", "restore"]


class Act(NamedTuple):
    """When something is done to a store (Unix ms), by whom, and why."""

    now_ms: int = 0
    actor: str = ""
    reason: str = ""


class State(NamedTuple):
    """A record with all that is known of it, in the order of STATE, and its content."""

    guid: str
    number: int
    scope: str
    kind: str
    source: str
    tags: str
    created_at: int
    updated_at: int
    key: str | None
    owner: str | None
    data: str | None
    expires_at: int | None
    in_context: int
    encrypted: int
    thread: str | None
    seq: int | None
    crc: int | None
    content: str

    @property
    def record(self) -> Record:
        """As it is answered."""
        return Record(
            self.guid,
            self.scope,
            self.kind,
            self.content,
            self.source,
            self.tags,
            self.created_at,
            self.updated_at,
            self.expires_at,
        )

    @property
    def further(self) -> Further:
        """What few records have."""
        return Further(self.key, self.owner, self.data, self.in_context, self.thread, self.seq)


class Version(NamedTuple):
    """An earlier state, and what ended it."""

    state: State
    there: bool  # False where the record was not there, from its deletion until it was brought back
    what: What
    act: Act


class VersionTable:
    """Keeps and reads them inside the store's open transaction; RecordTable tells it of every
    change."""

    def __init__(self, connection: apsw.Connection) -> None:
        """Nothing waits."""
        self._connection = connection
        self._waiting: list[tuple[Any, ...]] = []
        self.doing: tuple[int, str, str] = (
            Act()
        )  # as callers set it: plain, since each message brings one

    @property
    def now_ms(self) -> int:
        """When what is being done is done."""
        return self.doing[0]

    def reset(self) -> None:
        """Forgets what waited: after a rollback."""
        self._waiting.clear()

    def keep(
        self, state: tuple[Any, ...], content: str, what: What, after: str | None = None
    ) -> None:
        """A state ends, in the order of STATE; `after` is the content of the next one, if any."""
        begins = after is not None and after.startswith(content)
        self._waiting.append((*state, len(content), None if begins else content, what, *self.doing))

    def keep_absence(self, state: tuple[Any, ...]) -> None:
        """A record that was deleted is brought back; `state` has the number that follows the
        deleted one's."""
        self._waiting.append((*state, None, None, "restore", *self.doing))

    def keep_all(self, where: str, values: list[Any]) -> None:
        """All records for which a condition on `records AS r` holds are about to be deleted."""
        self.flush()
        self._connection.execute(f"{KEEP_ALL}{where} ORDER BY row", (*self.doing, *values))

    def flush(self) -> None:
        """Puts the rows that wait into the table, and takes out what is too many of a record."""
        if not self._waiting:
            return
        KEEP.run(self._connection, self._waiting)
        full = {
            guid: number
            for guid, number, *_ in self._waiting
            if number > KEPT and number % TOGETHER == 0
        }
        for guid, number in full.items():
            self._connection.execute(
                "DELETE FROM versions WHERE guid = ? AND number <= ?", (guid, number - KEPT)
            )
        self._waiting.clear()

    def of(self, guid: str, content: str | None = None, number: int = 0) -> Iterator[Version]:
        """The states that are kept of a record, the latest first; of one that is there, with its
        content and number.

        A state of which the text is lost with another's is left out.
        """
        self.flush()
        for *state, length, kept, what, changed_at, actor, reason in self._connection.execute(
            READ, (guid,)
        ):
            there, follows = length is not None, state[1] == number - 1
            content = (
                kept
                if kept is not None
                else content[:length]
                if there and follows and content is not None
                else None
            )
            number = state[1]
            if there and content is None:
                continue
            yield Version(
                State._make((*state, content or "")), there, what, Act(changed_at, actor, reason)
            )

    def count_of(self, guid: str) -> int:
        """How many states are kept of a record."""
        self.flush()
        return int(
            self._connection.execute("SELECT count(*) FROM versions WHERE guid = ?", (guid,)).get
        )

    def deleted(self, guid: str) -> Version | None:
        """The last state of a record that is not in the table of records; None where none is kept,
        or it has expired."""
        last = next(self.of(guid), None)
        if last is None or last.what != "delete" or has_expired(last.state.expires_at, self.now_ms):
            return None
        return last

    def page(
        self, conditions: Conditions, order: str, beyond: int | None, limit: int
    ) -> Iterator[tuple[int, Record, Further]]:
        """(number of its deletion, record, further fields) of deleted ones that can be brought
        back, as they were deleted."""
        clauses, values = self._gone(conditions)
        if beyond is not None:
            clauses, values = [BEYOND[order], *clauses], [beyond, *values]
        found = self._connection.execute(
            f"SELECT n, {STATE}, content FROM versions AS r{where(*clauses)}{ORDER[order]} LIMIT ?",
            (*values, limit),
        )
        states = ((row[0], State._make(row[1:])) for row in found)
        return ((number, state.record, state.further) for number, state in states)

    def count(self, conditions: Conditions) -> int:
        """How many deleted records there are that can be brought back, and that meet the
        conditions."""
        clauses, values = self._gone(conditions)
        return int(
            self._connection.execute(
                f"SELECT count(*) FROM versions AS r{where(*clauses)}", values
            ).get
        )

    def _gone(self, conditions: Conditions) -> tuple[list[str], list[Any]]:
        self.flush()
        clauses, values = conditions.clauses()
        return [*clauses, *GONE, UNEXPIRED], [*values, self.now_ms]

    def forget(self, guid: str) -> None:
        """Nothing is kept of a record."""
        self.flush()
        self._connection.execute("DELETE FROM versions WHERE guid = ?", (guid,))

    def reap(self, before_ms: int, most: int) -> int:
        """Deletes states that ended before that moment, the oldest first. How many there were."""
        self._connection.execute(
            "DELETE FROM versions WHERE n IN (SELECT n FROM versions ORDER BY n LIMIT ?) AND changed_at < ?",
            (most, before_ms),
        )
        return self._connection.changes()

    def reap_expired(self, now_ms: int, most: int) -> int:
        """Forgets deleted records whose time has come. How many there were."""
        guids = [guid for (guid,) in self._connection.execute(EXPIRED, (now_ms, most))]
        for guid in guids:
            self.forget(guid)
        return len(guids)

    def next_to_expire(self) -> int | None:
        """When the next of the deleted records expires, Unix ms."""
        found: int | None = self._connection.execute(NEXT_TO_EXPIRE).get
        return found

    def oldest_ms(self) -> int | None:
        """When the oldest state that is kept ended, Unix ms."""
        found: int | None = self._connection.execute(
            "SELECT changed_at FROM versions ORDER BY n LIMIT 1"
        ).get
        return found


# Where a record is, and all that is known of it: what a change of it must know.

PLACE = f"SELECT row, content, parts, {STATE} FROM records AS r"


class StoredRecord(NamedTuple):
    """One record."""

    row: int
    content: str
    parts: str | None  # that are indexed of it beside itself
    state: tuple[Any, ...]  # in the order of STATE

    @property
    def guid(self) -> str:
        """The record's."""
        return str(self.state[0])

    @property
    def whole(self) -> State:
        """With names for all of it."""
        return State._make((*self.state, self.content))


def stored_records(
    connection: apsw.Connection, which: str, values: list[Any]
) -> Iterator[StoredRecord]:
    """Those that `which`, what follows FROM, picks of the table of records as `r`."""
    return (
        StoredRecord(row[0], row[1], row[2], row[3:])
        for row in connection.execute(PLACE + which, values)
    )

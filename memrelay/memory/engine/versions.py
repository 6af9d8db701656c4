"""Earlier versions of records, stored in the transaction that ends them, so that a replay stores
none twice.

If the next version begins with the text of a version, that text is not stored. So a record that
grows by many small additions costs only these.

Rows are buffered until they are read, and at the latest until the commit.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import apsw

from memrelay.memory.engine.filter_sql import UNEXPIRED, Conditions, has_expired, where
from memrelay.memory.engine.models import list_rows
from memrelay.memory.engine.origins import OriginTable
from memrelay.memory.engine.rows import RowInsert
from memrelay.memory.records import columns
from memrelay.memory.records.columns import column_list
from memrelay.memory.records.record import Record, RecordExtras, beginning, checksum, names_of

STATE = column_list(columns.STATE)
COLUMNS = f"{STATE}, length, content, what, changed_at, actor, reason, ended, row, ended_by, input"
INSERT_VERSION = RowInsert("versions", COLUMNS)
INSERT_DELETED = (
    f"INSERT INTO versions({COLUMNS}) "
    f"SELECT {STATE}, length(content), content, 'delete', ?, ?, ?, ?, row, ?, ? "
    "FROM records AS r"
)
SELECT = f"SELECT {COLUMNS} FROM versions WHERE guid = ? ORDER BY n DESC"
# Conditions on `versions AS r`: the record ended with this deletion and was not restored.
IS_DELETED = (
    "r.what = 'delete' AND r.n = (SELECT max(n) FROM versions AS same WHERE same.guid = r.guid)",
    "NOT EXISTS (SELECT 1 FROM records AS current WHERE current.guid = r.guid)",
)
EXPIRED_DELETED = (
    f"SELECT guid FROM versions AS r{where('r.expires_at <= ?', *IS_DELETED)} "
    "ORDER BY r.expires_at LIMIT ?"
)
NEXT_EXPIRY = (
    f"SELECT expires_at FROM versions AS r{where('r.expires_at > 0', *IS_DELETED)} "
    "ORDER BY r.expires_at LIMIT 1"
)
BEYOND = {"asc": "r.n > ?", "desc": "r.n < ?"}
ORDER = {"asc": " ORDER BY r.n", "desc": " ORDER BY r.n DESC"}
DELETE_OLDEST = (
    "DELETE FROM versions WHERE n IN (SELECT n FROM versions ORDER BY n LIMIT ?) "
    "AND changed_at < ? RETURNING ended"
)
DELETE_MOMENTS = "DELETE FROM moments WHERE change < min(?, (SELECT max(change) FROM moments))"
# Versions kept per record. Older ones are deleted.
MAX_VERSIONS = 100
# Old versions are deleted once per this many changes, so that few changes pay for it.
TOGETHER = 16

What = Literal["update", "append", "delete", "restore"]


class Act(NamedTuple):
    """Time (Unix ms), actor and reason of a change."""

    now_ms: int = 0
    actor: str = ""
    reason: str = ""


class State(NamedTuple):
    """All columns of a record, in the order of columns.STATE, and its content."""

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
    valid_from: int | None
    valid_to: int | None
    # The number of the change that made it (as_of.py).
    born: int
    # The number of its origin, 0 if it is not known (origins.py).
    origin: int
    crc: int | None
    content: str

    @property
    def record(self) -> Record:
        """Return the record as reads return it."""
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
    def extras(self) -> RecordExtras:
        """Return the fields that few records have."""
        return RecordExtras(
            self.key,
            self.owner,
            self.data,
            self.in_context,
            self.thread,
            self.seq,
            self.valid_from,
            self.valid_to,
        )

    def with_values(self, record: Record, extras: RecordExtras) -> "State":
        """Return the state with these values. It keeps its guid, creation time and thread."""
        return self._replace(
            content=record.content,
            scope=record.scope,
            kind=record.kind,
            source=record.source,
            tags=record.tags,
            updated_at=record.updated_at,
            expires_at=record.expires_at,
            key=extras.key,
            owner=extras.owner,
            data=extras.data,
            in_context=extras.in_context,
            valid_from=extras.valid_from,
            valid_to=extras.valid_to,
        )

    def checksum(self) -> int:
        """Return the checksum of the texts, which `crc` has once it is stored."""
        common = beginning(self.scope, self.kind, self.source, self.tags)
        return checksum(common, names_of(self.guid, self.extras), self.content)


class Version(NamedTuple):
    """An earlier version and the change that ended it."""

    state: State
    # False if the record was deleted at that time: the span from its deletion to its restoration.
    there: bool
    what: What
    act: Act
    # The number of that change, and the row that the record had before it.
    ended: int
    row: int
    # The number of the change's origin, and the second part of the id of its input: the first one
    # is the time of the change. None if no input made it.
    ended_by: int
    sequence: int | None


class VersionTable:
    """Stores and reads versions inside the store's open transaction. RecordTable reports every
    change.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._new: list[tuple[Any, ...]] = []
        # The Act of the following changes. A plain tuple, because every message sets one.
        self.current_act: tuple[int, str, str] = Act()
        self.origins = OriginTable(connection)
        # The number of the last change of a record in the store. RecordTable counts.
        self.last_change = 0

    @property
    def now_ms(self) -> int:
        """Return the time of the current change, Unix ms."""
        return self.current_act[0]

    def reset(self) -> None:
        """Drop buffered rows after a rollback."""
        self._new.clear()
        self.origins.reset()

    def add(self, place: "StoredRecord", what: What, after: str | None = None) -> None:
        """Add the state of a record, which the last change ended. `after` is the next content, None
        for a deletion.
        """
        content = place.content
        kept = None if after is not None and after.startswith(content) else content
        ended = self._end(place.row)
        self._new.append((*place.values, len(content), kept, what, *self.current_act, *ended))

    def add_begun(self, state: tuple[Any, ...], length: int, row: int) -> None:
        """Add a state whose content of `length` characters begins the next one, after an append."""
        ended = self._end(row)
        self._new.append((*state, length, None, "append", *self.current_act, *ended))

    def add_absence(self, state: tuple[Any, ...]) -> None:
        """Add the span in which a restored record was deleted.

        `state` has the number after the deleted one's.
        """
        ended = self._end(0)
        self._new.append((*state, None, None, "restore", *self.current_act, *ended))

    def _end(self, row: int) -> tuple[int, int, int, int | None]:
        """Return what a version has of the current change, besides its act."""
        return self.last_change, row, self.origins.add(), self.origins.sequence_number()

    def add_deleted(self, where: str, values: list[Any]) -> None:
        """Add the records that a WHERE clause on `records AS r` selects, before
        they are deleted.
        """
        self.flush()
        ended, _, origin, number = self._end(0)
        self._connection.execute(
            f"{INSERT_DELETED}{where} ORDER BY row",
            (*self.current_act, ended, origin, number, *values),
        )

    def flush(self) -> None:
        """Insert the buffered rows and delete surplus versions of their records."""
        if not self._new:
            return
        INSERT_VERSION.run(self._connection, self._new)
        last_numbers = {
            guid: number
            for guid, number, *_ in self._new
            if number > MAX_VERSIONS and number % TOGETHER == 0
        }
        for guid, number in last_numbers.items():
            self._connection.execute(
                "DELETE FROM versions WHERE guid = ? AND number <= ?", (guid, number - MAX_VERSIONS)
            )
        self._new.clear()

    def of(self, guid: str, content: str | None = None, number: int = 0) -> Iterator[Version]:
        """Yield the versions of a record, the latest first.

        For an existing record, pass its content and number. A version whose text is lost together
        with that of a later one is skipped.
        """
        self.flush()
        for (
            *state,
            length,
            kept,
            what,
            changed_at,
            actor,
            reason,
            ended,
            row,
            ended_by,
            sequence,
        ) in self._connection.execute(SELECT, (guid,)):
            there, follows = length is not None, state[1] == number - 1
            if kept is not None:
                content = kept
            elif there and follows and content is not None:
                content = content[:length]
            else:
                content = None
            number = state[1]
            if there and content is None:
                continue
            then, act = State._make((*state, content or "")), Act(changed_at, actor, reason)
            yield Version(then, there, what, act, ended, row, ended_by, sequence)

    def count_of(self, guid: str) -> int:
        """Return the number of versions of a record."""
        self.flush()
        return int(
            self._connection.execute("SELECT count(*) FROM versions WHERE guid = ?", (guid,)).get
        )

    def deleted(self, guid: str) -> Version | None:
        """Return the last version of a deleted record, None if none is kept or it has expired."""
        last = next(self.of(guid), None)
        if last is None or last.what != "delete" or has_expired(last.state.expires_at, self.now_ms):
            return None
        return last

    def page(
        self, conditions: Conditions, order: str, beyond: int | None, limit: int
    ) -> Iterator[tuple[int, Record, RecordExtras]]:
        """Yield (number of its deletion, record, extras) of deleted records that can be
        restored.
        """
        clauses, values = self._deleted_conditions(conditions)
        if beyond is not None:
            clauses, values = [BEYOND[order], *clauses], [beyond, *values]
        found = self._connection.execute(
            f"SELECT n, {STATE}, content FROM versions AS r{where(*clauses)}{ORDER[order]} LIMIT ?",
            (*values, limit),
        )
        states = ((row[0], State._make(row[1:])) for row in found)
        return ((number, state.record, state.extras) for number, state in states)

    def count(self, conditions: Conditions) -> int:
        """Return the number of matching deleted records that can be restored."""
        clauses, values = self._deleted_conditions(conditions)
        return int(
            self._connection.execute(
                f"SELECT count(*) FROM versions AS r{where(*clauses)}", values
            ).get
        )

    def _deleted_conditions(self, conditions: Conditions) -> tuple[list[str], list[Any]]:
        self.flush()
        clauses, values = conditions.clauses()
        return [*clauses, *IS_DELETED, UNEXPIRED], [*values, self.now_ms]

    def forget(self, guid: str) -> None:
        """Delete all versions of a record."""
        self.flush()
        self._connection.execute("DELETE FROM versions WHERE guid = ?", (guid,))

    def forget_matching(self, which: str, values: list[Any]) -> None:
        """Delete all versions of the records that a WHERE clause on `records AS r` selects."""
        self.flush()
        self._connection.execute(
            f"DELETE FROM versions WHERE guid IN (SELECT r.guid FROM records AS r{which})", values
        )

    def delete_before(self, before_ms: int, most: int) -> int:
        """Delete up to `most` versions that ended before `before_ms`, the oldest first. Return
        their number.
        """
        ended = [change for (change,) in self._connection.execute(DELETE_OLDEST, (most, before_ms))]
        for rows in list_rows():
            if rows.is_history:
                delete = f"DELETE FROM {rows.table} WHERE ended_at < ? RETURNING ended"
                ended += [change for (change,) in self._connection.execute(delete, (before_ms,))]
        # The states before the last of these changes are no longer complete.
        self._connection.execute(DELETE_MOMENTS, (max(ended, default=0),))
        return len(ended)

    def delete_expired(self, now_ms: int, most: int) -> int:
        """Delete up to `most` deleted records that have expired. Return their number."""
        guids = [guid for (guid,) in self._connection.execute(EXPIRED_DELETED, (now_ms, most))]
        for guid in guids:
            self.forget(guid)
        return len(guids)

    def next_expiry_ms(self) -> int | None:
        """Return when the next deleted record expires, Unix ms. None for never."""
        found: int | None = self._connection.execute(NEXT_EXPIRY).get
        return found

    def oldest_ms(self) -> int | None:
        """Return when the oldest version ended, Unix ms. None if there is none."""
        found: int | None = self._connection.execute(
            "SELECT changed_at FROM versions ORDER BY n LIMIT 1"
        ).get
        return found


# A stored record with its row and all columns, as changes need it.

SELECT_STORED = f"SELECT row, content, parts, {STATE} FROM records AS r"


class StoredRecord(NamedTuple):
    """A record with its row in the table."""

    row: int
    content: str
    # Parts of words that are indexed in addition to the content.
    parts: str | None
    # In the order of columns.STATE.
    values: tuple[Any, ...]

    @property
    def guid(self) -> str:
        """Return the record's guid."""
        return str(self.values[0])

    @property
    def state(self) -> State:
        """Return the state with field names."""
        return State._make((*self.values, self.content))


def stored_records(
    connection: apsw.Connection, which: str, values: list[Any]
) -> Iterator[StoredRecord]:
    """Yield the records that `which` selects, the SQL after `FROM records AS r`."""
    return (
        StoredRecord(row[0], row[1], row[2], row[3:])
        for row in connection.execute(SELECT_STORED + which, values)
    )

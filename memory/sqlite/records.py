"""The table of records: rows to insert wait in memory until something reads the table, and until
the commit at the latest."""

from collections.abc import Iterator
from typing import Any

import apsw

from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.record import (
    PLAIN,
    Further,
    Record,
    beginning,
    checksum,
    content_checksum,
    names_of,
    record_of,
)
from memrelay.memory.sqlite.expiry import Expiry
from memrelay.memory.sqlite.filters import Conditions, Filters, where
from memrelay.memory.sqlite.fulltext import FullTextIndex, best_matches
from memrelay.memory.sqlite.rows import Changes, RowInsert
from memrelay.memory.sqlite.versions import (
    STATE,
    State,
    StoredRecord,
    VersionTable,
    What,
    stored_records,
)
from memrelay.memory.text.words import parts_of

Scores = dict[int, float]  # by row, the best first
COLUMNS = "guid, scope, kind, content, source, tags, created_at, updated_at"
FURTHER = "key, owner, data, in_context, thread, seq"
INSERT = RowInsert("records", f"{COLUMNS}, crc, parts", "row")
INSERT_TURNS = RowInsert("records", f"{COLUMNS}, crc, parts, thread, seq", "row")
INSERT_WHOLE = RowInsert("records", f"{STATE}, content, parts", "row")
LAST_SEQ = "SELECT coalesce(max(seq), -1) FROM records WHERE thread = ?"
READ = f"{COLUMNS}, expires_at"  # in the order of Record
SELECT = f"SELECT {READ}, 0.0 FROM records AS r"
PAGE = f"SELECT r.row, {READ}, 0.0, {FURTHER} FROM records AS r"
WIDTH = 1 + len(Record._fields)  # of a page's row, before its further fields
WITHOUT = "r.row NOT IN (SELECT rowid FROM {index} WHERE {index} MATCH ?)"
CHANGE = (
    "UPDATE records SET content = ?, parts = ?, updated_at = ?, number = number + 1, "
    "crc = crc & 0x7FFFFFFF00000000 | ? WHERE row = ?"
)
SELECT_FURTHER = f"SELECT {FURTHER} FROM records WHERE guid = ?"
AT_ROW = f"SELECT {READ} FROM records WHERE row = ?"
FILED = (
    "scope = ?, kind = ?, tags = ?, updated_at = ?, expires_at = ?, key = ?, owner = ?, data = ?, in_context = ?, "
    "crc = ?, number = number + 1 WHERE row = ?"
)
REFILE = (
    f"UPDATE records SET {FILED}"  # a vector goes with what it was made of: with these it stays
)
REWRITE = f"UPDATE records SET content = ?, parts = ?, source = ?, {FILED}"
REVERT = (
    "UPDATE records SET content = ?, parts = ?, scope = ?, kind = ?, source = ?, tags = ?, key = ?, owner = ?, data = ?, "
    "in_context = ?, encrypted = ?, updated_at = ?, crc = ?, number = number + 1 WHERE row = ?"
)
BY_GUID = " WHERE guid = ?"  # as `oldest` finds it, without the making of a statement
BEYOND = {"asc": "r.row > ?", "desc": "r.row < ?"}
ORDER = {"asc": " ORDER BY r.row", "desc": " ORDER BY r.row DESC"}


class RecordTable:
    """Reads and writes records inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        """A table in its committed state."""
        self._connection = connection
        self._waiting: list[tuple[Any, ...]] = []
        self._turns: list[tuple[Any, ...]] = []  # that wait as well
        self._whole: list[tuple[Any, ...]] = []  # and those with more than a content and names
        self._last_seqs: dict[str, int] = {}  # of the threads that this transaction has added to
        self.changes: Changes | None = (
            None  # told of what is edited and deleted, where somebody wants to know
        )
        self.versions = VersionTable(connection)
        self._index = FullTextIndex(connection)
        self.last_row = 0  # the highest one
        self.expiry = Expiry(connection)
        self.reset()

    def reset(self) -> None:
        """Forgets what waited: after a rollback, and at the beginning."""
        self._waiting.clear()
        self._turns.clear()
        self._whole.clear()
        self._last_seqs.clear()
        self.versions.reset()
        self.expiry.reset()
        self.last_row = self._connection.execute("SELECT coalesce(max(row), 0) FROM records").get
        self._index.reset(self.last_row)

    def acts(self, now_ms: int, actor: str, reason: str = "") -> None:
        """What follows is done at that moment, Unix ms, which decides what has expired; by whom,
        and why, is kept."""
        self.versions.doing = (now_ms, actor, reason)

    def insert(self, record: tuple[str, str, str, str, str, str, int, int]) -> None:
        """A new record, its values in the order of COLUMNS."""
        self.last_row += 1
        guid, scope, kind, content, source, tags, created_at, updated_at = record
        crc = checksum(beginning(scope, kind, source, tags), guid, content)
        self._waiting.append(
            (
                self.last_row,
                guid,
                scope,
                kind,
                content,
                source,
                tags,
                created_at,
                updated_at,
                crc,
                parts_of(content),
            )
        )

    def insert_turn(
        self, record: tuple[str, str, str, str, str, str, int, int], thread: str, seq: int | None
    ) -> None:
        """A new record in a thread, at the place `seq`, or after all that are there."""
        seq = self._seq(thread, seq)
        self.insert(record)
        self._turns.append((*self._waiting.pop(), thread, seq))

    def insert_whole(self, new: State) -> None:
        """A new record with all that is known of it; its checksum is made here, and where it is
        None its place in a thread."""
        self.last_row += 1
        crc = checksum(
            beginning(new.scope, new.kind, new.source, new.tags),
            names_of(new.guid, new.further),
            new.content,
        )
        seq = self._seq(new.thread, new.seq) if new.thread else None
        self._whole.append((self.last_row, *new._replace(seq=seq, crc=crc), parts_of(new.content)))
        self.expiry.concerns |= new.expires_at is not None

    def _seq(self, thread: str, seq: int | None) -> int:
        """The place of one more turn: that, or after all that are there."""
        last = self._last_seqs.get(thread)
        if last is None:  # then none of this thread waits
            last = self._connection.execute(LAST_SEQ, (thread,)).get
        seq = min(last + 1, LARGEST) if seq is None else seq
        self._last_seqs[thread] = max(last, seq)
        return seq

    def flush(self) -> None:
        """Puts the rows that wait into the table."""
        if self._waiting:
            INSERT.run(self._connection, self._waiting)
            self._waiting.clear()
        if self._turns:
            INSERT_TURNS.run(self._connection, self._turns)
            self._turns.clear()
        if self._whole:
            INSERT_WHOLE.run(self._connection, self._whole)
            self._whole.clear()

    def complete(self) -> None:
        """Table and index as the commit wants them."""
        self.flush()
        self.versions.flush()
        self._index.catch_up(self.last_row)
        self._last_seqs.clear()

    def by_guid(self, guid: str) -> StoredRecord | None:
        """One record."""
        if self.expiry.concerns:
            return self.oldest({"guid": guid})
        self.flush()
        return next(stored_records(self._connection, BY_GUID, [guid]), None)

    def oldest(self, filters: Filters) -> StoredRecord | None:
        """The first record that has the values of `filters`."""
        self.flush()
        clauses, values = self._clauses(Conditions(filters))
        return next(
            stored_records(self._connection, f"{where(*clauses)} ORDER BY row LIMIT 1", values),
            None,
        )

    def _clauses(self, conditions: Conditions) -> tuple[list[str], list[Any]]:
        return self.expiry.clauses(conditions, self.versions.now_ms)

    def replace_content(
        self, place: StoredRecord, new: str, now_ms: int, what: What = "append"
    ) -> None:
        """Gives a record another content."""
        self._changing(place, what, new)
        self._connection.execute(
            CHANGE, (new, parts_of(new), now_ms, content_checksum(new), place.row)
        )

    def _changing(self, place: StoredRecord, what: What, content: str) -> None:
        """A record is about to get this content, or other names; what it was is kept."""
        self.versions.keep(place.state, place.content, what, content)
        if content != place.content:
            self._index.changed(place.row, place.content, place.parts)
        if self.changes is not None:
            self.changes.add(place.row)

    def delete(self, place: StoredRecord) -> None:
        """Deletes a record; its last state is kept."""
        self.versions.keep(place.state, place.content, "delete")
        self.remove(place)

    def remove(self, place: StoredRecord) -> None:
        """Takes a record out of the table; nothing of it is kept."""
        self._last_seqs.clear()  # it may be a thread's last; where a record was found, none waits
        self._index.gone(place.row, place.content, place.parts)
        if self.changes is not None:
            self.changes.add(place.row)
        self._connection.execute("DELETE FROM records WHERE row = ?", (place.row,))

    def delete_all(self, filters: Filters) -> int:
        """Deletes all records that have the values of `filters` and returns how many; their last
        states are kept."""
        self.complete()
        clauses, values = self._clauses(Conditions(filters))
        which = where(*clauses)
        self.versions.keep_all(which, values)
        self._index.gone_where(which, values)
        if self.changes is not None:
            self.changes.add_some(
                row
                for (row,) in self._connection.execute(
                    f"SELECT r.row FROM records AS r{which}", values
                )
            )
        self._connection.execute(f"DELETE FROM records AS r{which}", values)
        return self._connection.changes()

    def bring_back(self, deleted: State, wanted: State) -> None:
        """Puts a deleted record back as `wanted`, after all others; in its thread where it was.
        When it expires stays."""
        self.versions.keep_absence((*deleted._replace(number=deleted.number + 1)[:-1],))
        self.insert_whole(wanted._replace(number=deleted.number + 2, expires_at=deleted.expires_at))

    def revert(self, place: StoredRecord, wanted: State) -> None:
        """Gives a record the content and the names of an earlier state. When it expires stays as it
        is."""
        self._changing(place, "restore", wanted.content)
        common = beginning(wanted.scope, wanted.kind, wanted.source, wanted.tags)
        crc = checksum(common, names_of(wanted.guid, wanted.further), wanted.content)
        self._connection.execute(
            REVERT,
            (
                wanted.content,
                parts_of(wanted.content),
                wanted.scope,
                wanted.kind,
                wanted.source,
                wanted.tags,
                wanted.key,
                wanted.owner,
                wanted.data,
                wanted.in_context,
                wanted.encrypted,
                wanted.updated_at,
                crc,
                place.row,
            ),
        )

    def expired_rows(self) -> list[int]:
        """Of the records whose time has come, and that are not deleted yet; nothing may wait."""
        return self.expiry.rows(self.versions.now_ms)

    def reap_expired(self, now_ms: int, most: int) -> int:
        """Deletes records whose time has come, with all that is kept of them, so many at once. How
        many there were."""
        self.flush()
        which = " WHERE r.expires_at <= ? ORDER BY r.expires_at LIMIT ?"
        found = list(stored_records(self._connection, which, [now_ms, most]))
        for place in found:
            self.remove(place)
            self.versions.forget(place.guid)
        self.expiry.reset()
        return len(found)

    def select(
        self, conditions: Conditions, order: str, limit: int | None, offset: int
    ) -> Iterator[Record]:
        """Records that the conditions allow, oldest first for `order` "asc", newest first for
        "desc"."""
        self.flush()
        clauses, values = self._clauses(conditions)
        window = " LIMIT ? OFFSET ?" if limit is not None or offset else ""
        if window:
            values += [-1 if limit is None else limit, offset]
        return map(
            record_of,
            self._connection.execute(SELECT + where(*clauses) + ORDER[order] + window, values),
        )

    def at_rows(self, scores: Scores) -> Iterator[Record]:
        """The records at these rows, in the order of `scores`, each with its own."""
        self.flush()
        for row, score in scores.items():
            for values in self._connection.execute(AT_ROW, (row,)):
                yield record_of((*values, score))

    def search(
        self,
        match: str,
        unwanted: str,
        conditions: Conditions,
        limit: int,
        *,
        best: Scores | None = None,
    ) -> Iterator[Record]:
        """Records that match an FTS5 expression, as `placed` finds them."""
        return (record for _, record in self.placed(match, unwanted, conditions, limit, best=best))

    def placed(
        self,
        match: str,
        unwanted: str,
        conditions: Conditions,
        limit: int,
        *,
        best: Scores | None = None,
    ) -> Iterator[tuple[int, Record]]:
        """(row, record with its score) of what matches an FTS5 expression, and not `unwanted`:
        first those whose content
        does, best first, which `best` has where they are known; then those that match by parts of
        words too. The limit
        counts last.
        """
        self.complete()
        clauses, values = self._clauses(conditions)
        if unwanted:
            clauses, values = [WITHOUT.format(index="parts_fts"), *clauses], [unwanted, *values]
        left = limit
        contents = (
            best_matches(self._connection, "records_fts", match, (clauses, values), limit)
            if best is None
            else zip(best, self.at_rows(best), strict=True)
        )
        for found in contents:
            left -= 1
            yield found
        if left and self._index.has_parts:
            others = [WITHOUT.format(index="records_fts"), *clauses], [match, *values]
            yield from best_matches(self._connection, "parts_fts", match, others, left)

    def latest(self, unwanted: str, conditions: Conditions, limit: int | None) -> Iterator[Record]:
        """Records that do not match an FTS5 expression ("" for all), newest first."""
        self.complete()
        clauses, values = self._clauses(conditions)
        if unwanted:
            clauses = [
                *clauses,
                WITHOUT.format(index="records_fts"),
                WITHOUT.format(index="parts_fts"),
            ]
            values = [*values, unwanted, unwanted]
        return map(
            record_of,
            self._connection.execute(
                SELECT + where(*clauses) + ORDER["desc"] + _window(limit), values
            ),
        )

    def further(self, guid: str) -> Further:
        """The further fields of a record."""
        self.flush()
        return next(map(Further._make, self._connection.execute(SELECT_FURTHER, (guid,))), PLAIN)

    def replace(self, before: Record, after: Record, further: Further) -> None:
        """Gives a record that is there another content, other names, tags, further fields or end.
        It stays in its thread."""
        place = self.by_guid(before.guid)
        if place is None:
            return
        self._changing(place, "update", after.content)
        common = beginning(after.scope, after.kind, after.source, after.tags)
        crc = checksum(common, names_of(after.guid, further), after.content)
        is_same = (after.content, after.source) == (place.content, before.source)
        said = () if is_same else (after.content, parts_of(after.content), after.source)
        self._connection.execute(
            REFILE if is_same else REWRITE,
            (
                *said,
                after.scope,
                after.kind,
                after.tags,
                after.updated_at,
                after.expires_at,
                *further[:4],
                crc,
                place.row,
            ),
        )
        self.expiry.concerns |= after.expires_at is not None

    def page(
        self, conditions: Conditions, order: str, beyond: int | None, limit: int, *, offset: int = 0
    ) -> Iterator[tuple[int, Record, Further]]:
        """(row, record, further fields) of those that the conditions allow, after the row `beyond`,
        but for the first ones."""
        self.flush()
        clauses, values = self._clauses(conditions)
        if beyond is not None:
            clauses, values = [BEYOND[order], *clauses], [beyond, *values]
        found = self._connection.execute(
            f"{PAGE}{where(*clauses)}{ORDER[order]} LIMIT {limit:d} OFFSET {offset:d}", values
        )
        return ((row[0], record_of(row[1:WIDTH]), Further._make(row[WIDTH:])) for row in found)

    def count(self, conditions: Conditions) -> int:
        """How many records the conditions allow."""
        self.flush()
        clauses, values = self._clauses(conditions)
        return int(
            self._connection.execute(
                f"SELECT count(*) FROM records AS r{where(*clauses)}", values
            ).get
        )


def _window(limit: int | None) -> str:
    return "" if limit is None else f" LIMIT {limit:d}"

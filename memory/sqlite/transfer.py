"""Puts the lines of an export into a store: what is there already and the same stays, anything else
is told.

A line that is too long for one call comes in pieces, which wait in a temporary table: an owner that
ends forgets them.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import apsw

from memrelay.memory.files.export import Confirmations, Ended, Exported, ExportedMemory, Line
from memrelay.memory.records.record import beginning, checksum, names_of
from memrelay.memory.sqlite.connection import open_store_file, translated
from memrelay.memory.sqlite.copy import check_texts
from memrelay.memory.sqlite.expiry import has_expired
from memrelay.memory.sqlite.memories import MemoryTable
from memrelay.memory.sqlite.records import RecordTable
from memrelay.memory.sqlite.versions import EXPIRED, KEEP, State, stored_records

# Reads all of a store that is remembered, row by row, for an export.

STATE = (
    "guid, number, scope, kind, source, tags, created_at, updated_at, key, owner, data, expires_at, in_context, "
    "encrypted, thread, seq, content"
)
WIDTH = 17
MEMORIES = "SELECT id, name, created_at, updated_at, description, tags FROM memories ORDER BY row"
RECORDS = (
    f"SELECT {', '.join('r.' + name for name in STATE.split(', '))}, e.confirmations, e.confirmed_at FROM records AS r "
    "LEFT JOIN entries AS e ON e.guid = r.guid ORDER BY r.row"
)
STATES = f"SELECT {STATE}, what, changed_at, actor, reason, length FROM versions ORDER BY n"
GONE = "SELECT guid FROM records WHERE expires_at <= ?"


def exported(path: Path, memory_id: str, now_ms: int) -> Iterator[Line]:
    """Everything in a copy of a store that nobody else uses, in its order; what has expired by then
    is left out.

    Raises StoreDamaged, before the first line, where a record is not what was written.
    """
    with translated(str(path)), closing(open_store_file(path)) as connection:
        check_texts(connection, memory_id)
        gone = {guid for (guid,) in connection.execute(GONE, (now_ms,))}
        gone |= {guid for (guid,) in connection.execute(EXPIRED, (now_ms, -1))}
        for line in _lines(connection, now_ms, gone):
            yield line.without_uid(memory_id)


def _lines(connection: apsw.Connection, now_ms: int, gone: set[str]) -> Iterator[Line]:
    for row in connection.execute(MEMORIES):
        yield Line(memory=ExportedMemory(*row))
    for row in connection.execute(RECORDS):
        record, times, last = Exported(*row[:WIDTH]), row[WIDTH], row[WIDTH + 1]
        if not has_expired(record.expires_at, now_ms):
            yield Line(record=record, confirmed=Confirmations(times, last) if times else None)
    for row in connection.execute(STATES):
        if row[0] not in gone:
            yield Line(version=Exported(*row[:WIDTH]), ended=Ended(*row[WIDTH:]))


RECORD = RECORDS.replace(" ORDER BY r.row", " WHERE r.guid = ?")
STATE_OF = STATES.replace(" ORDER BY n", " WHERE guid = ? AND number = ?")
MEMORY = MEMORIES.replace(" ORDER BY row", " WHERE id = ?")
LAST = "SELECT number, what FROM versions WHERE guid = ? ORDER BY n DESC LIMIT 1"
NUMBER = "SELECT number FROM records WHERE guid = ?"
CONFIRM = (
    "INSERT INTO entries(guid, memory, confirmations, confirmed_at) VALUES (?, ?, ?, ?) ON CONFLICT (guid) DO UPDATE "
    "SET confirmations = excluded.confirmations, confirmed_at = excluded.confirmed_at"
)
MOST_LINES = (
    8  # that come in pieces at once, of as many imports; what was begun before them was left
)
PIECES = "CREATE TEMPORARY TABLE IF NOT EXISTS import_pieces(of TEXT, at INTEGER, text TEXT NOT NULL, UNIQUE (of, at)) STRICT"
LENGTH = "SELECT coalesce(sum(length(text)), 0) FROM import_pieces WHERE of = ?"
JOINED = "SELECT coalesce(group_concat(text, '' ORDER BY at), '') FROM import_pieces WHERE of = ?"
FORGET = "DELETE FROM import_pieces WHERE of = ?"
FORGET_LEFT = (
    "DELETE FROM import_pieces WHERE of NOT IN (SELECT of FROM import_pieces WHERE at = 0 ORDER BY rowid DESC "
    f"LIMIT {MOST_LINES - 1})"
)


class Imports:
    """For one store's open transaction."""

    def __init__(
        self, connection: apsw.Connection, records: RecordTable, memories: MemoryTable
    ) -> None:
        """`connection` is the store's, of which these are the tables."""
        self._connection, self._records, self._memories = connection, records, memories

    def keep_piece(self, of: str, at: int, text: str) -> bool:
        """Keeps a piece of the line `of` that begins at that character. Whether it follows what is
        kept of it; the first one
        forgets that.
        """
        self._connection.execute(PIECES)
        if at == 0:
            self._connection.execute(FORGET, (of,))
            self._connection.execute(FORGET_LEFT)
        if self._connection.execute(LENGTH, (of,)).get != at:
            return False
        self._connection.execute("INSERT INTO import_pieces VALUES (?, ?, ?)", (of, at, text))
        return True

    def take_pieces(self, of: str) -> str:
        """All that is kept of a line, which then is forgotten."""
        self._connection.execute(PIECES)
        found = str(self._connection.execute(JOINED, (of,)).get)
        self._connection.execute(FORGET, (of,))
        return found

    def has(self, line: Line) -> bool:
        """Whether this is there, and the same."""
        self._records.complete()
        if line.record is not None:
            found = self._connection.execute(RECORD, (line.record.guid,)).fetchone()
            return found is not None and (line.record, line.confirmed) == (
                Exported(*found[:WIDTH]),
                Confirmations(*found[WIDTH:]) if found[WIDTH] else None,
            )
        if line.version is not None:
            found = self._connection.execute(
                STATE_OF, (line.version.guid, line.version.number)
            ).fetchone()
            return found is not None and (line.version, line.ended) == (
                Exported(*found[:WIDTH]),
                Ended(*found[WIDTH:]),
            )
        return line.memory is not None and self._memory(line.memory.id) == line.memory

    def conflict(self, line: Line) -> str:
        """What of the store is in the way of a line that is not there in the same words; "" for
        nothing."""
        if line.record is not None:
            last = self._connection.execute(LAST, (line.record.guid,)).fetchone()
            if self._number(line.record.guid) is not None:
                return "it is there, and is not the same"
            return (
                "it was deleted there"
                if last is not None and last[1] == "delete" and last[0] >= line.record.number
                else ""
            )
        if line.version is not None:
            there = self._connection.execute(
                STATE_OF, (line.version.guid, line.version.number)
            ).fetchone()
            number = self._number(line.version.guid)
            if number is not None and number <= line.version.number:
                return "the record is there in an earlier state"
            return "it is there, and is not the same" if there else ""
        return (
            "it is there, and is not the same"
            if line.memory is not None and self._memory(line.memory.id)
            else ""
        )

    def put(self, lines: Sequence[Line]) -> None:
        """Lines that are not there; what is in the way of one gives way."""
        for line in lines:
            if line.memory is not None:
                self._memories.remove(line.memory.id)
                self._memories.add(line.memory.memory)
            elif line.record is not None:
                self._put_record(line.record)
            elif line.version is not None and line.ended is not None:
                self._put_version(line.version, line.ended)
        self._records.flush()
        for line in lines:
            if line.record is not None and line.confirmed is not None:
                self._connection.execute(
                    CONFIRM,
                    (
                        line.record.guid,
                        line.record.scope,
                        line.confirmed.times,
                        line.confirmed.last,
                    ),
                )

    def _put_record(self, one: Exported) -> None:
        self._remove(one.guid)
        self._connection.execute(
            "DELETE FROM versions WHERE guid = ? AND number >= ?", (one.guid, one.number)
        )
        self._records.insert_whole(_state(one))

    def _put_version(self, one: Exported, ended: Ended) -> None:
        number = self._number(one.guid)
        if number is not None and number <= one.number:
            self._remove(one.guid)
        self._connection.execute(
            "DELETE FROM versions WHERE guid = ? AND number >= ?", (one.guid, one.number)
        )
        KEEP.run(
            self._connection,
            [
                (
                    *_state(one)[:-1],
                    ended.length,
                    one.content,
                    ended.what,
                    ended.changed_at,
                    ended.actor,
                    ended.reason,
                )
            ],
        )

    def _remove(self, guid: str) -> None:
        self._records.flush()
        for place in list(stored_records(self._connection, " WHERE guid = ?", [guid])):
            self._records.remove(place)

    def _number(self, guid: str) -> int | None:
        number: int | None = self._connection.execute(NUMBER, (guid,)).get
        return number

    def _memory(self, ident: str) -> ExportedMemory | None:
        found = self._connection.execute(MEMORY, (ident,)).fetchone()
        return ExportedMemory(*found) if found else None


def _state(one: Exported) -> State:
    """With its checksum, where its content is known."""
    state = State._make(
        (*(getattr(one, name) for name in State._fields[:-2]), None, one.content or "")
    )
    if one.content is None:
        return state
    common = beginning(one.scope, one.kind, one.source, one.tags)
    return state._replace(crc=checksum(common, names_of(one.guid, state.further), one.content))

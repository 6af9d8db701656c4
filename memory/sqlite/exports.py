"""Reads all of a store that is remembered, row by row, for an export."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw

from memory.exported import Confirmations, Ended, Exported, ExportedMemory, Line
from memory.sqlite.connection import open_store_file, translated
from memory.sqlite.copy import check_texts
from memory.sqlite.expiry import has_expired
from memory.sqlite.versions import EXPIRED

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

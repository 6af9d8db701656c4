"""Export a store line by line, and import lines: identical data stays, conflicts are reported.

A line that is too long for one call arrives in pieces, which are buffered in a temporary table. A
restart of the owner discards them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from operator import attrgetter
from pathlib import Path
from weakref import proxy

import apsw
from msgspec.structs import astuple, replace

from memrelay.memory.engine.conditions import has_expired
from memrelay.memory.engine.connection import open_store_file, translate_errors
from memrelay.memory.engine.copy import check_texts
from memrelay.memory.engine.records import RecordTable
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.engine.versions import (
    EXPIRED_DELETED,
    INSERT_VERSION,
    State,
    stored_records,
)
from memrelay.memory.models.named_memories.table import MemoryTable
from memrelay.memory.records.columns import EXPORTED, column_list
from memrelay.memory.records.record import beginning, checksum, names_of
from memrelay.memory.transfer.export import Confirmations, Ended, Exported, ExportedMemory, Line
from memrelay.memory.transfer.export_rows import ROW_SORTS, ExportedEdge, ExportedRow

# Export.

WIDTH = len(EXPORTED)
MEMORIES = f"SELECT {column_list(ExportedMemory.__struct_fields__)} FROM memories ORDER BY row"
RECORDS = (
    f"SELECT {column_list(EXPORTED, 'r.')}, e.confirmations, e.confirmed_at FROM records AS r "
    "LEFT JOIN entries AS e ON e.guid = r.guid ORDER BY r.row"
)
VERSIONS = (
    f"SELECT {column_list(EXPORTED)}, {column_list(Ended.__struct_fields__)} "
    "FROM versions ORDER BY n"
)
EXPIRED_RECORDS = "SELECT guid FROM records WHERE expires_at <= ?"
# Also items that were or became visible: their earlier values may be secrets too.
INTERNAL = " UNION ".join(
    f"SELECT guid FROM {table} WHERE kind = 'store.item' AND NOT in_context"
    for table in ("records", "versions")
)


def exported(
    path: Path,
    memory_id: str,
    now_ms: int,
    *,
    with_internal: bool = False,
    on_omitted: Callable[[int], None] | None = None,
) -> Iterator[Line]:
    """Yield all lines of a copied store that no other program uses, without data expired at
    `now_ms`, and without internal items unless `with_internal` is set.

    `on_omitted` receives the number of unexpired items that are left out, before the first line.
    Raises StoreDamaged before the first line: a record differs from what was written.
    """
    with translate_errors(str(path)), closing(open_store_file(path)) as connection:
        check_texts(connection, memory_id)
        with connection:
            RecordTable(connection).flush()
        left_out = {guid for (guid,) in connection.execute(EXPIRED_RECORDS, (now_ms,))}
        left_out |= {guid for (guid,) in connection.execute(EXPIRED_DELETED, (now_ms, -1))}
        if not with_internal:
            internal = {guid for (guid,) in connection.execute(INTERNAL)} - left_out
            left_out |= internal
            if on_omitted is not None:
                on_omitted(len(internal))
        for line in _lines(connection, now_ms, left_out):
            yield line.without_uid(memory_id)


def _lines(connection: apsw.Connection, now_ms: int, left_out: set[str]) -> Iterator[Line]:
    for row in connection.execute(MEMORIES):
        yield Line(memory=ExportedMemory(*row))
    for row in connection.execute(RECORDS):
        record, times, last = Exported(*row[:WIDTH]), row[WIDTH], row[WIDTH + 1]
        if record.guid not in left_out:
            yield Line(record=record, confirmed=Confirmations(times, last) if times else None)
    for row in connection.execute(VERSIONS):
        if row[0] not in left_out:
            yield Line(version=Exported(*row[:WIDTH]), ended=Ended(*row[WIDTH:]))
    for name, sort in ROW_SORTS.items():
        for row in connection.execute(sort.select):
            one = sort.struct(*row)
            has_ended = has_expired(getattr(one, "expires_at", None), now_ms)
            if not has_ended and row[0] not in left_out:
                yield Line(**{name: one})


# Import.

RECORD = RECORDS.replace(" ORDER BY r.row", " WHERE r.guid = ?")
VERSION = VERSIONS.replace(" ORDER BY n", " WHERE guid = ? AND number = ?")
TALLY = ROW_SORTS["tally"]
MEMORY = MEMORIES.replace(" ORDER BY row", " WHERE id = ?")
LAST_VERSION = "SELECT number, what FROM versions WHERE guid = ? ORDER BY n DESC LIMIT 1"
UNKNOWN_VALUES = "SELECT created_at, updated_at, seq FROM records WHERE guid = ?"
EQUAL_EDGE = (
    "SELECT EXISTS (SELECT 1 FROM edges WHERE instance = ? AND from_node = ? AND to_node = ? "
    "AND kind = ?)"
)
VERSION_NUMBER = "SELECT number FROM records WHERE guid = ?"
SET_CONFIRMATIONS = (
    "INSERT INTO entries(guid, memory, confirmations, confirmed_at) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (guid) DO UPDATE SET confirmations = excluded.confirmations, "
    "confirmed_at = excluded.confirmed_at"
)
# Lines that arrive in pieces at the same time, one per import. Older ones are abandoned.
MAX_SPLIT_LINES = 8
CREATE_PIECES = (
    "CREATE TEMPORARY TABLE IF NOT EXISTS import_pieces("
    "of TEXT, at INTEGER, text TEXT NOT NULL, UNIQUE (of, at)) STRICT"
)
PIECES_LENGTH = "SELECT coalesce(sum(length(text)), 0) FROM import_pieces WHERE of = ?"
JOINED_PIECES = (
    "SELECT coalesce(group_concat(text, '' ORDER BY at), '') FROM import_pieces WHERE of = ?"
)
DELETE_PIECES = "DELETE FROM import_pieces WHERE of = ?"
DELETE_ABANDONED = (
    "DELETE FROM import_pieces WHERE of NOT IN "
    f"(SELECT of FROM import_pieces WHERE at = 0 ORDER BY rowid DESC LIMIT {MAX_SPLIT_LINES - 1})"
)


# All columns of a record except its checksum and content.
columns_of = attrgetter(*State._fields[:-2])
DIFFERS = "the store has different data"


class Imports(StoreTable):
    """Imports into one store inside its open transaction."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._memories = store.table(MemoryTable)
        self._key_holder = partial(Store.key_holder, proxy(store))

    def keep_piece(self, of: str, at: int, text: str) -> bool:
        """Store a piece of the line `of` that starts at that character.

        Returns False if it does not follow the stored pieces. The first piece replaces them.
        """
        self._connection.execute(CREATE_PIECES)
        if at == 0:
            self._connection.execute(DELETE_PIECES, (of,))
            self._connection.execute(DELETE_ABANDONED)
        if self._connection.execute(PIECES_LENGTH, (of,)).get != at:
            return False
        self._connection.execute("INSERT INTO import_pieces VALUES (?, ?, ?)", (of, at, text))
        return True

    def take_pieces(self, of: str) -> str:
        """Return the pieces of a line, joined, and delete them."""
        self._connection.execute(CREATE_PIECES)
        found = str(self._connection.execute(JOINED_PIECES, (of,)).get)
        self._connection.execute(DELETE_PIECES, (of,))
        return found

    def complete(self) -> None:
        """Make earlier writes of the transaction visible to `completed`."""
        self._records.complete()

    def completed(self, line: Line, memory_id: str, now_ms: int) -> Line:
        """Return a line with all values that another system lacks: the scope, the position in a
        thread, and the times.

        They come from the store if it has the object. Otherwise the scope is the store, and the
        time is `now_ms`.
        """
        if line.record is not None:
            return replace(line, record=self._completed_record(line.record, memory_id, now_ms))
        if line.version is not None and not line.version.scope:
            return replace(line, version=replace(line.version, scope=memory_id))
        if line.memory is not None and not line.memory.created_at:
            found = self._memory(line.memory.id)
            at = (now_ms, now_ms) if found is None else (found.created_at, found.updated_at)
            return replace(line, memory=replace(line.memory, created_at=at[0], updated_at=at[1]))
        if line.edge is not None and not line.edge.created_at:
            row = self._row(line)
            at_ms = row.created_at if isinstance(row, ExportedEdge) else now_ms
            return replace(line, edge=replace(line.edge, created_at=at_ms))
        return line

    def _completed_record(self, one: Exported, memory_id: str, now_ms: int) -> Exported:
        scope, lacks_seq = one.scope or memory_id, one.thread is not None and one.seq is None
        if one.created_at and not lacks_seq:
            return one if one.scope else replace(one, scope=scope)
        found = self._connection.execute(UNKNOWN_VALUES, (one.guid,)).fetchone()
        created_at, updated_at, seq = found or (now_ms, now_ms, None)
        return replace(
            one,
            scope=scope,
            created_at=one.created_at or created_at,
            updated_at=one.updated_at or updated_at,
            seq=seq if lacks_seq else one.seq,
        )

    def has(self, line: Line, *, with_confirmations: bool = True) -> bool:
        """Return whether the store has identical data."""
        self._records.complete()
        if line.record is not None:
            found = self._connection.execute(RECORD, (line.record.guid,)).fetchone()
            if found is None or line.record != Exported(*found[:WIDTH]):
                return False
            confirmed = Confirmations(*found[WIDTH:]) if found[WIDTH] else None
            return not with_confirmations or line.confirmed == confirmed
        if line.version is not None:
            found = self._connection.execute(
                VERSION, (line.version.guid, line.version.number)
            ).fetchone()
            return found is not None and (line.version, line.ended) == (
                Exported(*found[:WIDTH]),
                Ended(*found[WIDTH:]),
            )
        if line.memory is not None:
            return self._memory(line.memory.id) == line.memory
        return self._row(line) == line.row

    def has_equal_edge(self, edge: ExportedEdge) -> bool:
        """Return whether the graph has an edge of the same kind between the same nodes."""
        values = (edge.instance, edge.from_node, edge.to_node, edge.kind)
        return bool(self._connection.execute(EQUAL_EDGE, values).get)

    def conflict(self, line: Line) -> str:
        """Return what prevents the import of a line that the store lacks, "" for nothing."""
        if line.record is not None:
            last = self._connection.execute(LAST_VERSION, (line.record.guid,)).fetchone()
            if self._current_number(line.record.guid) is not None:
                return DIFFERS
            if (holder := self._key_holder(_to_state(line.record))) is not None:
                return f"its key belongs to record {holder.guid}"
            return (
                "it was deleted in the store"
                if last is not None and last[1] == "delete" and last[0] >= line.record.number
                else ""
            )
        if line.version is not None:
            found = self._connection.execute(
                VERSION, (line.version.guid, line.version.number)
            ).fetchone()
            number = self._current_number(line.version.guid)
            if number is not None and number <= line.version.number:
                return "the store has an earlier version of the record"
            return DIFFERS if found else ""
        found = self._row(line) if line.memory is None else self._memory(line.memory.id)
        return DIFFERS if found is not None else ""

    def put(self, lines: Sequence[Line]) -> None:
        """Import lines that the store lacks. Conflicting data is replaced."""
        for line in lines:
            if line.memory is not None:
                self._memories.remove(line.memory.id)
                self._memories.add(line.memory.memory)
            elif line.record is not None:
                self._put_record(line.record)
            elif line.version is not None and line.ended is not None:
                self._put_version(line.version, line.ended)
            elif line.row is not None:
                self._connection.execute(ROW_SORTS[line.sort].insert, astuple(line.row))
        self._records.flush()
        for line in lines:
            if line.record is not None and line.confirmed is not None:
                self._connection.execute(
                    SET_CONFIRMATIONS,
                    (
                        line.record.guid,
                        line.record.scope,
                        line.confirmed.times,
                        line.confirmed.last,
                    ),
                )

    def _put_record(self, one: Exported) -> None:
        tally = self._connection.execute(TALLY.select_one, (one.guid,)).fetchone()
        self._remove(one.guid)
        if tally is not None:
            # A trigger has deleted it with the record.
            self._connection.execute(TALLY.insert, tally)
        if (holder := self._key_holder(_to_state(one))) is not None:
            self._records.delete(holder)
        self._connection.execute(
            "DELETE FROM versions WHERE guid = ? AND number >= ?", (one.guid, one.number)
        )
        self._records.insert_whole(_to_state(one))

    def _put_version(self, one: Exported, ended: Ended) -> None:
        number = self._current_number(one.guid)
        if number is not None and number <= one.number:
            self._remove(one.guid)
        self._connection.execute(
            "DELETE FROM versions WHERE guid = ? AND number >= ?", (one.guid, one.number)
        )
        INSERT_VERSION.run(
            self._connection,
            [
                (
                    *_to_state(one)[:-1],
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

    def _current_number(self, guid: str) -> int | None:
        number: int | None = self._connection.execute(VERSION_NUMBER, (guid,)).get
        return number

    def _row(self, line: Line) -> ExportedRow | None:
        """Return the row of the store with the key of that line."""
        if line.row is None:
            return None
        sort = ROW_SORTS[line.sort]
        found = self._connection.execute(sort.select_one, sort.key_of(line.row)).fetchone()
        return None if found is None else sort.struct(*found)

    def _memory(self, ident: str) -> ExportedMemory | None:
        found = self._connection.execute(MEMORY, (ident,)).fetchone()
        return ExportedMemory(*found) if found else None


def _to_state(one: Exported) -> State:
    """Return the state, with its checksum if its content is known."""
    state = State._make((*columns_of(one), None, one.content or ""))
    if one.content is None:
        return state
    common = beginning(one.scope, one.kind, one.source, one.tags)
    return state._replace(crc=checksum(common, names_of(one.guid, state.further), one.content))

"""Export a store line by line, and import lines: identical data stays, conflicts are reported."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any
from weakref import proxy

import apsw
from msgspec.structs import asdict, astuple, replace

from memrelay.memory.engine.connection import open_store_file, translate_errors
from memrelay.memory.engine.copy import check_texts
from memrelay.memory.engine.filter_sql import has_expired
from memrelay.memory.engine.models import internal_kinds, load
from memrelay.memory.engine.records import RecordTable
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.engine.versions import (
    EXPIRED_DELETED,
    INSERT_VERSION,
    State,
    stored_records,
)
from memrelay.memory.records.columns import EXPORTED, column_list
from memrelay.memory.records.export_fields import ExportedRow, RecordPart
from memrelay.memory.records.record import beginning, checksum, names_of
from memrelay.memory.transfer.lines import (
    RECORD_PARTS,
    ROW_TABLES,
    Ended,
    Exported,
    Line,
    RowTable,
    make_record_line,
    make_row_line,
    replace_row,
    select_values,
)

WIDTH = len(EXPORTED)


def _select_records(condition: str) -> str:
    """Return the SQL of records with their parts. The columns of a part are NULL without one."""
    columns, joins = [column_list(EXPORTED, "r.")], ["records AS r"]
    for name, part in RECORD_PARTS.items():
        columns.append(column_list(part.COLUMNS, f"{name}."))
        joins.append(f"{part.TABLE} AS {name} ON {name}.guid = r.guid AND {name}.{part.CONDITION}")
    return f"SELECT {', '.join(columns)} FROM {' LEFT JOIN '.join(joins)} {condition}"


RECORDS = _select_records("ORDER BY r.row")
RECORD = _select_records("WHERE r.guid = ?")
SELECT_VERSIONS = (
    f"SELECT {column_list(EXPORTED)}, {column_list(Ended.__struct_fields__)} FROM versions"
)
VERSIONS = f"{SELECT_VERSIONS} ORDER BY n"
VERSION = f"{SELECT_VERSIONS} WHERE guid = ? AND number = ?"
EXPIRED_RECORDS = "SELECT guid FROM records WHERE expires_at <= ?"
LAST_VERSION = "SELECT number, what FROM versions WHERE guid = ? ORDER BY n DESC LIMIT 1"
LATER_VERSIONS = "DELETE FROM versions WHERE guid = ? AND number >= ?"
UNKNOWN_VALUES = "SELECT created_at, updated_at, seq FROM records WHERE guid = ?"
VERSION_NUMBER = "SELECT number FROM records WHERE guid = ?"
# All columns of a record except its checksum and content.
get_columns = attrgetter(*State._fields[:-2])
DIFFERS = "the store has different data"


def export_lines(
    path: Path,
    memory_id: str,
    now_ms: int,
    *,
    with_internal: bool = False,
    on_omitted: Callable[[int], None] | None = None,
) -> Iterator[Line]:
    """Yield all lines of a copied store that no other program uses, without data expired at
    `now_ms`, and without internal records unless `with_internal` is set.

    `on_omitted` receives the number of unexpired internal records that are left out, before the
    first line. Raises StoreDamaged before the first line: a record differs from what was written.
    """
    with translate_errors(str(path)), closing(open_store_file(path)) as connection:
        check_texts(connection, memory_id)
        with connection:
            RecordTable(connection).flush()
        omitted = {guid for (guid,) in connection.execute(EXPIRED_RECORDS, (now_ms,))}
        omitted |= {guid for (guid,) in connection.execute(EXPIRED_DELETED, (now_ms, -1))}
        if not with_internal:
            internal = _find_internal(connection) - omitted
            omitted |= internal
            if on_omitted is not None:
                on_omitted(len(internal))
        for line in _list_lines(connection, now_ms, omitted):
            yield line.without_uid(memory_id)


def _find_internal(connection: apsw.Connection) -> set[str]:
    """Return the guids of records that are or were internal.

    Records that were or became visible are included: their earlier values may be secrets too.
    """
    statements = [
        f"SELECT guid FROM {table} WHERE kind = '{kind}' AND NOT in_context"
        for kind in internal_kinds()
        for table in ("records", "versions")
    ]
    return {guid for statement in statements for (guid,) in connection.execute(statement)}


def _list_lines(connection: apsw.Connection, now_ms: int, omitted: set[str]) -> Iterator[Line]:
    before = [table for table in ROW_TABLES.values() if table.lines.holds_records]
    after = [table for table in ROW_TABLES.values() if not table.lines.holds_records]
    for table in before:
        yield from _list_rows(connection, table, now_ms, omitted)
    for values in connection.execute(RECORDS):
        record = Exported(*values[:WIDTH])
        if record.guid not in omitted:
            yield make_record_line(record, _read_parts(values[WIDTH:]))
    for values in connection.execute(VERSIONS):
        version = Exported(*values[:WIDTH])
        if version.guid not in omitted:
            yield Line(version=version, ended=Ended(*values[WIDTH:]))
    for table in after:
        yield from _list_rows(connection, table, now_ms, omitted)


def _list_rows(
    connection: apsw.Connection, table: RowTable, now_ms: int, omitted: set[str]
) -> Iterator[Line]:
    """Yield the lines of a table, without expired rows and those of omitted records."""
    for values in connection.execute(table.select):
        row = table.struct(*values)
        is_omitted = table.lines.of_record and select_values(row, table.lines.key)[0] in omitted
        if not is_omitted and not has_expired(getattr(row, "expires_at", None), now_ms):
            yield make_row_line(row)


def _read_parts(values: Sequence[Any]) -> dict[str, RecordPart]:
    """Return the parts of a record from their columns."""
    parts: dict[str, RecordPart] = {}
    for name, part in RECORD_PARTS.items():
        columns, values = values[: len(part.COLUMNS)], values[len(part.COLUMNS) :]
        if columns[0] is not None:
            parts[name] = part(*columns)
    return parts


class Imports(StoreTable):
    """Imports into one store inside its open transaction."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._key_holder = partial(Store.key_holder, proxy(store))
        # By table: what writes its rows instead of SQL.
        self._writers = {
            name: store.table(load(table.lines.writer))
            for name, table in ROW_TABLES.items()
            if table.lines.writer
        }

    def flush(self) -> None:
        """Make earlier writes of the transaction visible to `complete`."""
        self._records.complete()

    def complete(self, line: Line, memory_id: str, now_ms: int) -> Line:
        """Return a line with all values that another system lacks: the scope, the position in a
        thread, and the times.

        They come from the store if it has the object. Otherwise the scope is the store, and the
        time is `now_ms`.
        """
        if line.record is not None:
            return replace(line, record=self._complete_record(line.record, memory_id, now_ms))
        if line.version is not None and not line.version.scope:
            return replace(line, version=replace(line.version, scope=memory_id))
        if line.row is not None:
            find_existing = partial(self._find_row, line)
            return replace_row(line, line.row.complete(find_existing, now_ms))
        return line

    def _complete_record(self, record: Exported, memory_id: str, now_ms: int) -> Exported:
        scope = record.scope or memory_id
        lacks_seq = record.thread is not None and record.seq is None
        if record.created_at and not lacks_seq:
            return record if record.scope else replace(record, scope=scope)
        existing = self._connection.execute(UNKNOWN_VALUES, (record.guid,)).fetchone()
        created_at, updated_at, seq = existing or (now_ms, now_ms, None)
        return replace(
            record,
            scope=scope,
            created_at=record.created_at or created_at,
            updated_at=record.updated_at or updated_at,
            seq=seq if lacks_seq else record.seq,
        )

    def has(self, line: Line, *, with_parts: bool = True) -> bool:
        """Return whether the store has identical data, for a record also the same parts."""
        self._records.complete()
        if line.record is not None:
            values = self._connection.execute(RECORD, (line.record.guid,)).fetchone()
            if values is None or line.record != Exported(*values[:WIDTH]):
                return False
            return not with_parts or line.parts == _read_parts(values[WIDTH:])
        if line.version is not None:
            values = self._find_version(line.version)
            return values is not None and (line.version, line.ended) == (
                Exported(*values[:WIDTH]),
                Ended(*values[WIDTH:]),
            )
        is_same: bool = self._find_row(line) == line.row
        return is_same

    def has_equal(self, line: Line) -> bool:
        """Return whether the store has an equal row with another key."""
        table = ROW_TABLES.get(line.type)
        if table is None or line.row is None or not table.has_equal:
            return False
        values = select_values(line.row, table.lines.equal)
        return bool(self._connection.execute(table.has_equal, values).get)

    def find_conflict(self, line: Line) -> str:
        """Return what prevents the import of a line that the store lacks, "" for nothing."""
        if line.record is not None:
            return self._find_record_conflict(line.record)
        if line.version is not None:
            number = self._current_number(line.version.guid)
            if number is not None and number <= line.version.number:
                return "the store has an earlier version of the record"
            return DIFFERS if self._find_version(line.version) else ""
        return DIFFERS if self._find_row(line) is not None else ""

    def _find_record_conflict(self, record: Exported) -> str:
        if self._current_number(record.guid) is not None:
            return DIFFERS
        if (holder := self._key_holder(to_state(record))) is not None:
            return f"its key belongs to record {holder.guid}"
        last = self._connection.execute(LAST_VERSION, (record.guid,)).fetchone()
        was_deleted = last is not None and last[1] == "delete" and last[0] >= record.number
        return "it was deleted in the store" if was_deleted else ""

    def put(self, lines: Sequence[Line]) -> None:
        """Import lines that the store lacks. Conflicting data is replaced."""
        for line in lines:
            if line.record is not None:
                self._put_record(line.record)
            elif line.version is not None and line.ended is not None:
                self._put_version(line.version, line.ended)
            elif line.row is not None:
                self._put_row(line.type, line.row)
        self._records.flush()
        for line in lines:
            if line.record is not None:
                self._put_parts(line.record, line.parts)

    def _put_parts(self, record: Exported, parts: dict[str, RecordPart]) -> None:
        for part in parts.values():
            values = (record.guid, record.scope, *astuple(part))
            self._connection.execute(part.WRITE, values)

    def _put_row(self, type_: str, row: ExportedRow) -> None:
        if (writer := self._writers.get(type_)) is not None:
            writer.put_row(asdict(row))
        else:
            self._connection.execute(ROW_TABLES[type_].insert, astuple(row))

    def _put_record(self, record: Exported) -> None:
        rows = [
            (table.insert, values)
            for table in ROW_TABLES.values()
            if table.lines.of_record
            for values in self._connection.execute(table.select_one, (record.guid,))
        ]
        self._remove(record.guid)
        for insert, values in rows:
            # A trigger has deleted it with the record.
            self._connection.execute(insert, values)
        if (holder := self._key_holder(to_state(record))) is not None:
            self._records.delete(holder)
        self._connection.execute(LATER_VERSIONS, (record.guid, record.number))
        self._records.insert_state(to_state(record))

    def _put_version(self, version: Exported, ended: Ended) -> None:
        number = self._current_number(version.guid)
        if number is not None and number <= version.number:
            self._remove(version.guid)
        self._connection.execute(LATER_VERSIONS, (version.guid, version.number))
        row = (
            *to_state(version)[:-1],
            ended.length,
            version.content,
            ended.what,
            ended.changed_at,
            ended.actor,
            ended.reason,
        )
        INSERT_VERSION.run(self._connection, [row])

    def _remove(self, guid: str) -> None:
        self._records.flush()
        for stored in list(stored_records(self._connection, " WHERE guid = ?", [guid])):
            self._records.remove(stored)

    def _current_number(self, guid: str) -> int | None:
        number: int | None = self._connection.execute(VERSION_NUMBER, (guid,)).get
        return number

    def _find_version(self, version: Exported) -> Any:
        """Return the columns of the version with the guid and number of another one."""
        return self._connection.execute(VERSION, (version.guid, version.number)).fetchone()

    def _find_row(self, line: Line) -> Any:
        """Return the row of the store with the key of a line's row."""
        if line.row is None:
            return None
        table = ROW_TABLES[line.type]
        key = select_values(line.row, table.lines.key)
        values = self._connection.execute(table.select_one, key).fetchone()
        return None if values is None else table.struct(*values)


def to_state(record: Exported) -> State:
    """Return the state, with its checksum if its content is known."""
    state = State._make((*get_columns(record), None, record.content or ""))
    if record.content is None:
        return state
    common = beginning(record.scope, record.kind, record.source, record.tags)
    names = names_of(record.guid, state.extras)
    return state._replace(crc=checksum(common, names, record.content))

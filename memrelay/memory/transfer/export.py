"""Export stores line by line, and import lines: identical data stays, conflicts are reported.

Lines are JSON objects for records, their earlier versions, and rows of the tables that models
declare in their manifests. Ids and scopes that contain the pipeline's uid have `${pipeline_uid}` in
its place, so that another pipeline can import them.

A file has a header line, the lines of each store, and a last line with counts and a digest. The
digest is the SHA-256 of all lines between the first and the last. It reveals a truncated or changed
file.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast
from weakref import proxy

import apsw
import msgspec
import orjson
from msgspec import Raw, Struct, defstruct
from msgspec.structs import asdict, astuple, replace
from pydantic import ValidationError

from memrelay.memory.engine.connection import open_store_file, translate_errors
from memrelay.memory.engine.copy import check_texts
from memrelay.memory.engine.filter_sql import has_expired
from memrelay.memory.engine.models import (
    RowLines,
    internal_kinds,
    list_named_hooks,
    list_row_lines,
    load,
)
from memrelay.memory.engine.origins import REPLACED
from memrelay.memory.engine.records import RecordTable
from memrelay.memory.engine.split_texts import MAX_CHARACTERS
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.engine.versions import (
    EXPIRED_DELETED,
    INSERT_VERSION,
    State,
    What,
    stored_records,
)
from memrelay.memory.errors import BadExport, Refused
from memrelay.memory.records.columns import EXPORTED, column_list
from memrelay.memory.records.data import as_text, checked
from memrelay.memory.records.export_fields import (
    ExportedRow,
    Guid,
    Int,
    LineWriter,
    Number,
    RecordPart,
    Time,
)
from memrelay.memory.records.ids import UID, replace_uid, uid_of_store
from memrelay.memory.records.record import beginning, checksum, names_of


class Exported(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A record or an earlier version of it, with its columns as stored.

    `tags` and `data` are JSON texts. Times are Unix ms.
    """

    guid: Guid
    number: Number
    scope: str
    kind: str
    source: str
    tags: str
    created_at: Time
    updated_at: Time
    key: str | None = None
    owner: str | None = None
    data: str | None = None
    expires_at: Time | None = None
    in_context: Int = 0
    encrypted: Int = 0
    thread: str | None = None
    seq: Int | None = None
    valid_from: Time | None = None
    valid_to: Time | None = None
    # None in an earlier version if the next version begins with it, or the record was deleted.
    content: str | None = None


class Ended(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The change that ended an earlier version."""

    what: What
    changed_at: Time
    actor: str
    reason: str = ""
    # Characters of its content, None if the record was deleted.
    length: Int | None = None


class RowTable(NamedTuple):
    """A table whose rows are lines of an export."""

    table: str
    lines: RowLines
    struct: type[ExportedRow]

    @property
    def columns(self) -> str:
        """Return the columns as an SQL list, in the order of the struct's fields."""
        return column_list(self.struct.__struct_encode_fields__)

    @property
    def select(self) -> str:
        """Return the SQL of all rows."""
        order = column_list(self.lines.order or self.lines.key)
        return f"SELECT {self.columns} FROM {self.table} ORDER BY {order}"

    @property
    def select_one(self) -> str:
        """Return the SQL of the row with a key."""
        return f"SELECT {self.columns} FROM {self.table} WHERE {_equal(self.lines.key)}"

    @property
    def has_equal(self) -> str:
        """Return the SQL that compares a row with another one, "" if rows have only keys."""
        if not self.lines.equal:
            return ""
        return f"SELECT EXISTS (SELECT 1 FROM {self.table} WHERE {_equal(self.lines.equal)})"

    @property
    def insert(self) -> str:
        """Return the SQL that inserts a row, or replaces the row with its key."""
        marks = ", ".join("?" * len(self.struct.__struct_fields__))
        return f"INSERT OR REPLACE INTO {self.table}({self.columns}) VALUES ({marks})"


def _equal(columns: tuple[str, ...]) -> str:
    return " AND ".join(f"{name} = ?" for name in columns)


def select_values(row: ExportedRow, columns: tuple[str, ...]) -> tuple[Any, ...]:
    """Return some columns of a row."""
    return tuple(getattr(row, name) for name in columns)


# By the field of a line that holds the row.
ROW_TABLES = {
    lines.name: RowTable(rows.table, lines, load(lines.struct)) for rows, lines in list_row_lines()
}
RECORD_PARTS: dict[str, type[RecordPart]] = {
    name: load(part) for name, part in list_named_hooks("record_parts").items()
}
# A line has exactly one of these fields.
TYPES = ("record", "version", *ROW_TABLES)


class Line(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line: a record, an earlier version of one, or a row of a model's table.

    `read_line` and `make_row_line` return lines with the fields that models add: their rows, and
    parts of a record.
    """

    record: Exported | None = None
    version: Exported | None = None
    # Only with a version.
    ended: Ended | None = None

    @property
    def type(self) -> str:
        """Return the name of the field that the line has, one of TYPES."""
        return next((name for name in TYPES if getattr(self, name, None) is not None), "")

    @property
    def row(self) -> ExportedRow | None:
        """Return the row of a model's table, None for other lines."""
        row: ExportedRow | None = getattr(self, self.type) if self.type in ROW_TABLES else None
        return row

    @property
    def parts(self) -> dict[str, RecordPart]:
        """Return the parts of the record by the name of their field."""
        parts = {name: getattr(self, name, None) for name in RECORD_PARTS}
        return {name: part for name, part in parts.items() if part is not None}

    @property
    def name(self) -> str:
        """Return the name of the line in messages."""
        if self.record is not None:
            return f"record {self.record.guid}"
        if self.version is not None:
            return f"version {self.version.number} of record {self.version.guid}"
        if self.row is None:
            return "nothing"
        return f"{self.type} {self.row.describe(ROW_TABLES[self.type].lines.key)}"

    @property
    def scope(self) -> str:
        """Return the scope of the record or version, "" for a row."""
        record = self.record or self.version
        return "" if record is None else record.scope

    @property
    def kind(self) -> str:
        """Return the kind of the record, "" for other lines."""
        return "" if self.record is None else self.record.kind

    def without_uid(self, memory_id: str) -> "Line":
        """Return the line with the uid of that store's pipeline replaced by the placeholder."""
        return _replace_uid(self, uid_of_store(memory_id), UID)

    def with_uid(self, memory_id: str) -> "Line":
        """Return the line with the placeholder replaced by the uid of that store's pipeline."""
        return _replace_uid(self, UID, uid_of_store(memory_id))


FIELD_TYPES: dict[str, Any] = {
    **RECORD_PARTS,
    **{name: table.struct for name, table in ROW_TABLES.items()},
}
ModelLine = cast(
    type[Line],
    defstruct(
        "ModelLine",
        [(name, struct | None, None) for name, struct in FIELD_TYPES.items()],
        bases=(Line,),
        frozen=True,
        forbid_unknown_fields=True,
        omit_defaults=True,
    ),
)
TYPE_OF_ROW = {table.struct: name for name, table in ROW_TABLES.items()}


def make_record_line(record: Exported, parts: dict[str, RecordPart]) -> Line:
    """Return the line of a record with its parts."""
    return ModelLine(record=record, **parts)  # type: ignore[arg-type]


def make_row_line(row: ExportedRow) -> Line:
    """Return the line of a row."""
    fields: dict[str, Any] = {TYPE_OF_ROW[type(row)]: row}
    return ModelLine(**fields)


def replace_row(line: Line, row: ExportedRow) -> Line:
    """Return the line with another row of the same table."""
    return replace(line, **{line.type: row})


def _replace_uid(line: Line, before: str, after: str) -> Line:
    if line.row is not None:
        columns = ROW_TABLES[line.type].lines.ids
        ids = {name: replace_uid(getattr(line.row, name), before, after) for name in columns}
        return replace_row(line, replace(line.row, **ids)) if ids else line
    changes: dict[str, Any] = {}
    for name in ("record", "version"):
        record = getattr(line, name)
        if record is not None and before in record.scope:
            changes[name] = replace(record, scope=replace_uid(record.scope, before, after))
    return replace(line, **changes) if changes else line


def read_line(text: str) -> Line:
    """Parse a line into the JSON form that a store writes. Raises Refused."""
    try:
        line = _to_line(text)
        if line.record is not None:
            line = replace(line, record=_normalize_json(line.record))
        if line.version is not None:
            line = replace(line, version=_normalize_json(line.version))
        if line.row is not None:
            line = replace_row(line, line.row.normalize())
    except (msgspec.MsgspecError, TypeError, RecursionError, ValueError) as error:
        if (type_ := find_unknown_type(text.encode(errors="replace"))) != "":
            raise Refused(
                f"this Memrelay does not know the line `{type_}` of an export; import it with the "
                "version that its first line names, or a later one"
            ) from error
        raise Refused(
            f"invalid line of an export: {error}; it begins with {text[:80]!r}"
        ) from error
    if [getattr(line, name) is None for name in TYPES].count(False) != 1 or not _is_complete(line):
        raise Refused(
            f"a line of an export has exactly one complete object of: {', '.join(TYPES)}; this "
            f"one begins with {text[:80]!r}"
        )
    return line


def _normalize_json(record: Exported) -> Exported:
    """Write `tags` and `data` as a store writes JSON. An erasure would not find a text in other
    JSON.
    """
    try:
        data = _to_data(record.data or "{}")
        # The value of an internal record may be any JSON.
        text = as_text(data if record.kind in internal_kinds() else checked(data))
    except ValidationError as error:
        raise Refused(
            f"`data` of record {record.guid!r} {error.errors(include_url=False)[0]['msg']}"
        ) from error
    return replace(record, tags=orjson.dumps(_to_tags(record.tags)).decode(), data=text)


def _is_complete(line: Line) -> bool:
    if line.version is None:
        return (
            line.ended is None
            and (line.record is None or line.record.content is not None)
            and (not line.parts or line.record is not None)
        )
    if line.ended is None or line.parts:
        return False
    content, length = line.version.content, line.ended.length
    return content is None if length is None else length >= 0


def find_unknown_type(line: bytes) -> str:
    """Return the first field of a line if this version does not know it, else ""."""
    match = FIRST_FIELD.match(line)
    type_ = "" if match is None else match[1].decode()
    return "" if type_ in (*TYPES, "store", "end") else type_


FIRST_FIELD = re.compile(rb'\{"(\w{1,64})":')
_to_line = msgspec.json.Decoder(ModelLine).decode
_to_tags = msgspec.json.Decoder(list[str]).decode
_to_data = msgspec.json.Decoder(dict[str, Any]).decode
to_json = msgspec.json.Encoder().encode


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
# All columns of a record except its checksum and content, and the number of its change.
get_columns = attrgetter(*State._fields[:-4])
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

    def admit(self, line: Line) -> Line:
        """Return a line as the policies of the store let it in. Raises PolicyStop."""
        if line.record is not None:
            return replace(line, record=self._admit_record(line.record))
        if line.version is not None:
            return replace(line, version=self._admit_record(line.version))
        return line if line.row is None else replace_row(line, line.row.admit(self._records))

    def _admit_record(self, record: Exported) -> Exported:
        new = to_state(record)
        admitted = self._records.admit(new)
        if admitted is new:
            return record
        values = dict(zip(new._fields, admitted, strict=True))
        changed = {name: values[name] for name in record.__struct_fields__ if name in values}
        if record.content is None:
            del changed["content"]
        return replace(record, **changed)

    def put(self, lines: Sequence[Line]) -> None:
        """Import lines that the store lacks and that its policies have let in. Conflicting data is
        replaced.
        """
        for line in lines:
            if line.record is not None:
                self._put_record(line.record)
            elif line.version is not None and line.ended is not None:
                self._put_version(line.version, line.ended)
            elif line.row is not None:
                if (writer := self._writers.get(line.type)) is not None:
                    writer.put_row(asdict(line.row))
                else:
                    self._connection.execute(ROW_TABLES[line.type].insert, astuple(line.row))
        self._records.flush()
        for line in lines:
            if line.record is None:
                continue
            for part in line.parts.values():
                values = (line.record.guid, line.record.scope, *astuple(part))
                self._connection.execute(part.WRITE, values)

    def _put_record(self, record: Exported) -> None:
        rows = [
            (table.insert, values)
            for table in ROW_TABLES.values()
            if table.lines.of_record
            for values in self._connection.execute(table.select_one, (record.guid,))
        ]
        was_there = self._current_number(record.guid) is not None
        self._remove(record.guid)
        for insert, values in rows:
            # A trigger has deleted it with the record.
            self._connection.execute(insert, values)
        if (holder := self._key_holder(to_state(record))) is not None:
            self._records.delete(holder)
        self._connection.execute(LATER_VERSIONS, (record.guid, record.number))
        origins = self._records.versions.origins
        origins.replace(verdict=REPLACED if was_there else "")
        self._records.insert_state(to_state(record), is_admitted=True)

    def _put_version(self, version: Exported, ended: Ended) -> None:
        number = self._current_number(version.guid)
        if number is not None and number <= version.number:
            self._remove(version.guid)
        self._connection.execute(LATER_VERSIONS, (version.guid, version.number))
        # It belongs to no state of this store before or after this change (engine/as_of.py).
        self._records.versions.last_change = change = self._records.versions.last_change + 1
        origin = self._records.versions.origins.add()
        row = (
            *to_state(version)._replace(born=change, origin=origin)[:-1],
            ended.length,
            version.content,
            ended.what,
            ended.changed_at,
            ended.actor,
            ended.reason,
            change,
            0,
            origin,
            None,
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
    state = State._make((*get_columns(record), 0, 0, None, record.content or ""))
    if record.content is None:
        return state
    common = beginning(record.scope, record.kind, record.source, record.tags)
    names = names_of(record.guid, state.extras)
    return state._replace(crc=checksum(common, names, record.content))


FORMAT = 1
# Bytes read at once when a file of unknown content is verified.
CHUNK = 1 << 20
Result = TypeVar("Result")


class Header(Struct, frozen=True):
    """The first line."""

    # Version of the format.
    memrelay_export: int
    # Unix ms
    made_at: int
    # Version of Memrelay that made it.
    memrelay: str
    pipeline_uid: str
    pipeline_name: str


class End(Struct, frozen=True, omit_defaults=True):
    """The last line. `FullEnd` adds the digest and the counts of the models' rows."""

    records: int
    versions: int

    def count_rows(self, field: str) -> int:
        """Return the count of rows in that field."""
        count: int = getattr(self, field)
        return count

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the lines."""
        digest: str = getattr(self, DIGEST)
        return digest


DIGEST = "sha256"


# Rows that hold records have a count in each file, the others only if there are some.
REQUIRED: list[Any] = [
    (table.lines.count, int) for table in ROW_TABLES.values() if table.lines.holds_records
]
OPTIONAL: list[Any] = [
    (table.lines.count, int, 0) for table in ROW_TABLES.values() if not table.lines.holds_records
]
FullEnd = cast(
    type[End],
    defstruct(
        "FullEnd",
        [*REQUIRED, (DIGEST, str), *OPTIONAL],
        bases=(End,),
        frozen=True,
        omit_defaults=True,
    ),
)


class _StoreOrEnd(Struct, frozen=True):
    # The memory_id of the lines that follow, with `${pipeline_uid}`.
    store: str = ""
    end: Raw = Raw(b"null")


def write_export(
    file: LineWriter, header: Header, stores: Iterable[tuple[str, Iterable[Line]]]
) -> End:
    """Write all lines and return the last one. `stores` are (name, lines). Raises OSError."""
    digest, counts = sha256(), Counter[str]()
    file.write(to_json(header) + b"\n")
    for name, lines in stores:
        _write_line(file, digest, to_json({"store": name}))
        for line in lines:
            counts[line.type] += 1
            _write_line(file, digest, to_json(line))
    end = FullEnd(
        records=counts["record"],
        versions=counts["version"],
        **{DIGEST: digest.hexdigest()},
        **{table.lines.count: counts[name] for name, table in ROW_TABLES.items()},
    )
    file.write(to_json({"end": end}) + b"\n")
    return end


def _write_line(file: LineWriter, digest: Any, line: bytes) -> None:
    file.write(line + b"\n")
    digest.update(line + b"\n")


def verify_export(path: Path) -> End:
    """Check that a file is complete and of a known format, and return its last line.

    Raises BadExport and OSError.
    """
    digest, unknown = sha256(), ""
    # The last line read, or its last chunk: a line longer than a chunk has no counts.
    last, is_start = b"", True
    with path.open("rb") as file:
        if not file.seekable():
            raise BadExport(
                f"{path} is a pipe, but an import reads the export twice; save it to a file and "
                "import that"
            )
        header = _read_header(path, file.readline(CHUNK))
        while chunk := file.readline(CHUNK):
            digest.update(last)
            unknown = unknown or (find_unknown_type(chunk) if is_start else "")
            last, is_start = chunk, chunk.endswith(b"\n")
    try:
        end = _to_end(_to_store_or_end(last).end) if last.endswith(b"\n") else None
    except msgspec.MsgspecError:
        end = None
    if end is None:
        raise BadExport(
            f"{path} is truncated: the last line with counts is missing; export it again"
        )
    if end.digest != digest.hexdigest():
        raise BadExport(f"{path} changed after the export: its digest differs; export it again")
    if unknown:
        raise BadExport(
            f"{path} has lines `{unknown}`, which this Memrelay does not know; import it with "
            f"Memrelay {header.memrelay} or later"
        )
    return end


def _read_header(path: Path, line: bytes) -> Header:
    try:
        header = _to_header(line)
    except msgspec.MsgspecError as error:
        raise BadExport(
            f"{path} is not an export of Memrelay: {error}; create one with `memrelay export "
            "--records`, or name the system that made the file: `--from auto`"
        ) from error
    if header.memrelay_export != FORMAT:
        raise BadExport(
            f"{path} has the format {header.memrelay_export} of another Memrelay "
            f"({header.memrelay}); import it with that version"
        )
    return header


def read_export(path: Path, longest: int = MAX_CHARACTERS) -> Iterator[tuple[str, str]]:
    """Yield (name of a store, line) of a verified file. Raises BadExport and OSError.

    `longest` limits a line, bytes.
    """
    with path.open("rb") as file:
        file.readline()
        store = ""
        while line := file.readline(longest + 1):
            if len(line) > longest:
                raise BadExport(
                    f"{path} has a line of more than {longest} bytes, which cannot be imported; it "
                    f"begins with {line[:80]!r}. Export it again"
                )
            if line.startswith(b'{"store":'):
                store = _decode(path, line, _to_store_or_end).store
            elif not line.startswith(b'{"end":'):
                yield store, _decode(path, line, bytes.decode).rstrip("\n")


def _decode(path: Path, line: bytes, decoder: Callable[[bytes], Result]) -> Result:
    try:
        return decoder(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadExport(f"{path} has an invalid line: {error}; export it again") from error


_to_header = msgspec.json.Decoder(Header).decode
_to_store_or_end = msgspec.json.Decoder(_StoreOrEnd).decode
_to_end = msgspec.json.Decoder(FullEnd).decode

"""Lines of an export: JSON objects for records, their earlier versions, and rows of the tables that
models declare in their manifests.

Ids and scopes that contain the pipeline's uid have `${pipeline_uid}` in its place, so that another
pipeline can import them.
"""

import re
from typing import Any, NamedTuple, cast

import msgspec
import orjson
from msgspec import Struct, defstruct
from msgspec.structs import replace
from pydantic import ValidationError

from memrelay.memory.engine.models import (
    RowLines,
    internal_kinds,
    list_named_hooks,
    list_row_lines,
    load,
)
from memrelay.memory.engine.versions import What
from memrelay.memory.errors import Refused
from memrelay.memory.records.columns import column_list
from memrelay.memory.records.data import as_text, checked
from memrelay.memory.records.export_fields import (
    ExportedRow,
    Guid,
    Int,
    Number,
    RecordPart,
    Time,
)
from memrelay.memory.records.ids import UID, replace_uid, uid_of_store


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
        """Return the SQL that says whether a row equals another one, "" if rows have only keys."""
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

"""Zep CE: its tables of users, sessions and messages as SQL, CSV or JSON, and its REST answers."""

import csv
import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from memrelay.memory.transfer.importers.encodings import as_utf8, open_text
from memrelay.memory.transfer.importers.json_items import (
    BEGINNING,
    begins_with,
    list_of,
    read_documents,
    read_list,
)
from memrelay.memory.transfer.importers.source import (
    Fault,
    LeftOut,
    RefusedFile,
    SourceInput,
    SourceItem,
    Turn,
    fields_of,
    read_content,
    read_position,
    read_text,
    read_time,
    source,
    without_empty,
)

# Columns in the order of Zep's schema, for INSERT statements without names.
_DATES = "uuid,id,created_at,updated_at,deleted_at"
COLUMNS = {
    "users": f"{_DATES},user_id,email,first_name,last_name,project_uuid,metadata",
    "sessions": "uuid,id,session_id,created_at,updated_at,deleted_at,ended_at,metadata,user_id,"
    "project_uuid",
    "messages": f"{_DATES},session_id,project_uuid,role,role_type,content,token_count,metadata",
}
# Characters of a statement, and of a field of CSV.
MAX_STATEMENT = 64 << 20
_INSERT = re.compile(
    r'INSERT INTO (?:"?\w+"?\.)?"?(\w+)"?(?: \(([^)]*)\))?(?: OVERRIDING \w+ VALUE)? VALUES\s*'
)
# After `(` or `,`: a text, NULL or another value, and what ends it.
_VALUE = re.compile(r"\s*(?:'([^']*+(?:''[^']*+)*+)'|(NULL)|(-?[\w.+-]+))\s*([,)])")
_COPY = re.compile(r'COPY (?:"?\w+"?\.)?"?messages"?[ (]')


class Row(NamedTuple):
    """A row of a table, or why it cannot be read."""

    position: str
    table: str
    fields: dict[str, Any]
    fault: str = ""


def read_sql(path: Path, tables: Collection[str]) -> Iterator[Row]:
    """Yield the rows that the INSERT statements of a dump add to some of Zep's tables.

    Raises RefusedFile and OSError.
    """
    for number, statement in _statements(path):
        match = _INSERT.match(statement)
        if match is None or match[1] not in tables:
            continue
        names = [name.strip(' "') for name in (match[2] or COLUMNS[match[1]]).split(",")]
        line, counted = number, 0
        at = match.end()
        while at < len(statement):
            line, counted = line + statement.count("\n", counted, at), at
            position = f"line {line}"
            try:
                values, at = _read_values(statement, at)
                yield Row(position, match[1], _by_column(names, values))
            except LeftOut as error:
                yield Row(position, match[1], {}, str(error))
                break


def read_csv(path: Path, table: str) -> Iterator[Row]:
    """Yield the rows of a CSV file whose first line has the names of the columns.

    Raises RefusedFile and OSError.
    """
    csv.field_size_limit(MAX_STATEMENT)
    with open_text(path) as file:
        lines = _csv_lines(path, csv.reader(file, strict=True))
        _, names = next((line for line in lines if any(line[1])), (1, []))
        if "session_id" not in names and "user_id" not in names:
            raise RefusedFile(
                f"{path} has no column `session_id` in its first line; export it with HEADER"
            )
        for number, values in lines:
            try:
                yield Row(f"line {number}", table, _by_column(names, values))
            except LeftOut as error:
                yield Row(f"line {number}", table, {}, str(error))


def _csv_lines(path: Path, reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of its first line, values) of each row."""
    before = 0
    try:
        for values in reader:
            yield before + 1, values
            before = reader.line_num
    except csv.Error as error:
        raise RefusedFile(
            f"{path} is not valid CSV at line {reader.line_num}: {error}; export it again"
        ) from error


def _statements(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number of its first line, text) of each INSERT statement."""
    lines: list[str] = []
    begun, quotes, size = 0, 0, 0
    with open_text(path, newline="\n") as file:
        for number, line in enumerate(file, 1):
            if not lines and _COPY.match(line):
                raise RefusedFile(
                    f"{path} has its rows in COPY statements; run "
                    "`pg_dump --data-only --inserts` instead"
                )
            if not lines and not line.startswith("INSERT INTO "):
                continue
            if not lines:
                begun, quotes, size = number, 0, 0
            lines.append(line)
            quotes, size = quotes + line.count("'"), size + len(line)
            if size > MAX_STATEMENT:
                raise RefusedFile(f"{path}: the statement at line {begun} is longer than 64 MiB")
            # A semicolon inside of a text does not end the statement.
            if quotes % 2 == 0 and line.rstrip().endswith(";"):
                yield begun, "".join(lines)
                lines = []
    if lines:
        raise RefusedFile(f"{path} ends within the statement of line {begun}; export it again")


def _read_values(statement: str, at: int) -> tuple[list[str | None], int]:
    """Return (values, end) of a row that begins at `(`. Raises LeftOut."""
    values: list[str | None] = []
    start, end = at, "," if statement[at : at + 1] == "(" else ""
    while end == ",":
        match = _VALUE.match(statement, at + 1)
        if match is None:
            break
        text, null, bare, end = match.groups()
        values.append(None if null else bare if text is None else text.replace("''", "'"))
        at = match.end() - 1
    if end != ")":
        raise LeftOut(f"the SQL of the row is unknown: {statement[start : start + 40]!r}")
    at = _skip_spaces(statement, at + 1)
    return values, _skip_spaces(statement, at + 1)


def _skip_spaces(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _by_column(names: list[str], values: list[Any]) -> dict[str, Any]:
    if len(names) != len(values):
        raise LeftOut(
            f"the row has {len(values)} values instead of {len(names)}; "
            "for a dump, use `pg_dump --data-only --column-inserts`"
        )
    return dict(zip(names, values, strict=True))


NAME = "zep"
TABLES = ("users", "sessions", "messages")
# Facts of an answer of the API, which Zep derives from messages.
FACTS = ("facts", "relevant_facts")
# Digits of the number of a row.
MAX_DIGITS = 18
DUMP = "PostgreSQL database dump"
NOTE = (
    "the names, addresses and metadata of Zep's users and sessions are not imported; "
    "each turn has its user as owner and its session as thread"
)


def detect(path: Path) -> bool:
    if path.is_dir():
        return (path / "messages.csv").is_file()
    text = _beginning_of(path)
    first = text.partition("\n")[0].split(",")
    is_csv = {"session_id", "content", "role"} <= {name.strip('"\r') for name in first}
    is_dump = text.startswith("--") and DUMP in text
    return is_csv or is_dump or begins_with(path, "role_type content", "user_id project_uuid")


def _beginning_of(path: Path) -> str:
    with path.open("rb") as file, as_utf8(file, path.name) as text:
        beginning = text.read(BEGINNING).decode(errors="replace")
    return beginning.lstrip("\ufeff \t\r\n")


class _Session(NamedTuple):
    user: str
    # Time of the deletion as in the source.
    deleted_at: object


@source(NAME, detect)
def read(source_input: SourceInput) -> Iterator[SourceItem]:
    """Yield the messages as turns.

    A folder may hold `messages.csv` and `sessions.csv`. Without sessions, the column `user_id` of a
    message is its owner.
    """
    sessions, is_empty = _read_sessions(source_input.file), True
    for row in _read_rows(source_input.file):
        if row.table == "messages":
            is_empty = False
            try:
                yield _to_turn(row, sessions)
            except LeftOut as error:
                yield Fault(row.position, str(error))
        elif row.table in FACTS:
            yield Fault(row.position, "a fact that Zep derived from messages is not imported")
        elif row.fault:
            yield Fault(row.position, row.fault)
    if sessions:
        source_input.note(NOTE)
    if is_empty:
        source_input.note("the file has no messages of Zep")


def _read_sessions(path: Path) -> dict[str, _Session]:
    """Return the sessions by id. They may follow their messages in the file."""
    return {
        str(row.fields.get("session_id")): _Session(
            str(row.fields.get("user_id") or ""), row.fields.get("deleted_at")
        )
        for row in _read_rows(path, ("sessions",))
        if row.table == "sessions"
    }


def _read_rows(path: Path, tables: Collection[str] = TABLES) -> Iterator[Row]:
    """Yield the rows of a file, at least those of the tables."""
    if path.is_dir():
        yield from _read_folder(path)
        return
    beginning = _beginning_of(path)
    if beginning.startswith(("{", "[")):
        yield from _read_json(path)
    elif beginning.startswith(("--", "SET ", "INSERT ", "\\", "BEGIN")):
        yield from read_sql(path, tables)
    elif "messages" in tables:
        yield from read_csv(path, "messages")


def _read_folder(folder: Path) -> Iterator[Row]:
    if not (folder / "messages.csv").is_file():
        raise RefusedFile(f"{folder} has no file messages.csv; export the table `messages` as CSV")
    for table in TABLES:
        if (folder / f"{table}.csv").is_file():
            for row in read_csv(folder / f"{table}.csv", table):
                yield row._replace(position=f"{table}.csv, {row.position}")


def _read_json(path: Path) -> Iterator[Row]:
    for position, value in read_documents(path, *TABLES):
        if isinstance(value, Fault):
            yield Row(position, "", {}, value.reason)
        elif key := list_of(position):
            yield _to_row(position, key, value, {})
        elif isinstance(value, dict) and any(isinstance(value.get(key), list) for key in TABLES):
            yield from _read_document(position, value, path.stem)
        elif isinstance(value, dict) and "content" not in value and "session_id" in value:
            yield Row(position, "sessions", value)
        else:
            yield _to_row(position, "messages", value, {})


def _read_document(position: str, document: dict[str, Any], stem: str) -> Iterator[Row]:
    """Yield the rows of tables, or of an answer of the API. That does not name the session, so the
    name of the file does.
    """
    inherited = without_empty(document, "session_id", "user_id")
    if "sessions" not in document and "users" not in document:
        inherited = {"session_id": stem} | inherited
    for table in (*TABLES, *FACTS):
        for place, value in read_list(document, table, position):
            yield _to_row(place, table, value, inherited if table == "messages" else {})


def _to_row(position: str, table: str, value: object, inherited: dict[str, Any]) -> Row:
    try:
        return Row(position, table, inherited | fields_of(value))
    except LeftOut as error:
        return Row(position, table, {}, str(error))


def _to_turn(row: Row, sessions: dict[str, _Session]) -> Turn:
    if row.fault:
        raise LeftOut(row.fault)
    fields = row.fields
    thread, ident = read_text(fields, "session_id"), read_text(fields, "uuid")
    if not thread or not ident:
        raise LeftOut(f"the message has no `{'uuid' if thread else 'session_id'}`")
    session = sessions.get(thread, _Session(read_text(fields, "user_id"), None))
    role, kind = read_text(fields, "role"), read_text(fields, "role_type")
    return Turn(
        position=row.position,
        id=ident,
        created_at=read_time(fields.get("created_at")),
        updated_at=read_time(fields.get("updated_at")),
        deleted_at=_first_time(fields.get("deleted_at"), session.deleted_at),
        text=read_content(fields, "content"),
        thread=thread,
        seq=_sequence(fields),
        source=role or (kind if kind != "norole" else ""),
        owner=session.user or None,
        data=_data(fields),
    )


def _first_time(*values: object) -> int | None:
    """Return the first time that is present. Raises LeftOut."""
    return next((time for one in values if (time := read_time(one)) is not None), None)


def _sequence(fields: dict[str, Any]) -> int:
    """Return the number of the row, or its time in an answer of the API."""
    number = read_text(fields, "id")
    if not number:
        return read_position(fields, 0)
    if not number.isascii() or not number.isdecimal() or len(number) > MAX_DIGITS:
        raise LeftOut(f'the id "{number[:40]}" is not a number')
    return int(number)


def _data(fields: dict[str, Any]) -> dict[str, Any]:
    metadata, tokens = fields.get("metadata"), read_text(fields, "token_count")
    if isinstance(metadata, str) and metadata:
        try:
            metadata = json.loads(metadata)
        except ValueError as error:
            raise LeftOut("`metadata` is not valid JSON") from error
    count = {"token_count": int(tokens)} if tokens.isdecimal() and tokens != "0" else {}
    return without_empty(fields | {"metadata": metadata}, "role_type", "metadata") | count

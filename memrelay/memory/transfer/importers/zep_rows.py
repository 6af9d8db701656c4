"""Read rows of Zep's tables from SQL and CSV files."""

import csv
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from memrelay.memory.transfer.importers.items import LeftOut
from memrelay.memory.transfer.importers.source import RefusedFile

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
        found = _INSERT.match(statement)
        if found is None or found[1] not in tables:
            continue
        names = [name.strip(' "') for name in (found[2] or COLUMNS[found[1]]).split(",")]
        line, counted = number, 0
        at = found.end()
        while at < len(statement):
            line, counted = line + statement.count("\n", counted, at), at
            position = f"line {line}"
            try:
                values, at = _read_values(statement, at)
                yield Row(position, found[1], _by_column(names, values))
            except LeftOut as error:
                yield Row(position, found[1], {}, str(error))
                break


def read_csv(path: Path, table: str) -> Iterator[Row]:
    """Yield the rows of a CSV file whose first line has the names of the columns.

    Raises RefusedFile and OSError.
    """
    csv.field_size_limit(MAX_STATEMENT)
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        lines = _csv_lines(path, csv.reader(file, strict=True))
        _, names = next(lines, (1, []))
        if "session_id" not in names and "user_id" not in names:
            raise RefusedFile(
                f"{path} has no column `session_id` in its first line; export it with HEADER"
            )
        for number, values in lines:
            yield _csv_row(f"line {number}", table, names, values)


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


def _csv_row(position: str, table: str, names: list[str], values: list[str]) -> Row:
    try:
        return Row(position, table, _by_column(names, values))
    except LeftOut as error:
        return Row(position, table, {}, str(error))


def _statements(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number of its first line, text) of each INSERT statement."""
    lines: list[str] = []
    begun, quotes, size = 0, 0, 0
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
        for number, line in enumerate(file, 1):
            if not lines and not line.startswith("INSERT INTO "):
                _refuse_copy(path, line)
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


def _refuse_copy(path: Path, line: str) -> None:
    if _COPY.match(line):
        raise RefusedFile(
            f"{path} has its rows in COPY statements; run `pg_dump --data-only --inserts` instead"
        )


def _read_values(statement: str, at: int) -> tuple[list[str | None], int]:
    """Return (values, end) of a row that begins at `(`. Raises LeftOut."""
    values: list[str | None] = []
    start, end = at, "," if statement[at : at + 1] == "(" else ""
    while end == ",":
        found = _VALUE.match(statement, at + 1)
        if found is None:
            break
        text, null, bare, end = found.groups()
        values.append(None if null else bare if text is None else text.replace("''", "'"))
        at = found.end() - 1
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

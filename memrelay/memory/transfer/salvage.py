"""Salvage: replace a damaged store by a new one that has everything that can still be read."""

from contextlib import closing
from functools import cache
from pathlib import Path
from typing import NamedTuple

import apsw
import orjson

from memrelay.memory.engine.connection import open_store_file, register_parts_of, translate_errors
from memrelay.memory.engine.copy import accept_texts, inspect
from memrelay.memory.engine.disk import draft_file
from memrelay.memory.engine.models import list_hooks, list_rows, load
from memrelay.memory.engine.timestamps import LAST_MS
from memrelay.memory.transfer.backup import replace


class Table(NamedTuple):
    """A table whose rows are copied."""

    # Its integer key column, "" if it has none.
    key: str = ""
    # Columns whose unreadable JSON is repaired.
    json: tuple[str, ...] = ()


# The tables that every store has. Those of the models are in their manifests.
OWN_TABLES = {
    "records": Table("row", ("tags", "data")),
    "versions": Table("n", ("tags", "data")),
    "appended": Table("n"),
    "inbox": Table("n"),
    "pending": Table("rowid"),
    "attempts": Table(),
    "idempotency_owners": Table("n"),
    "idempotency_keys": Table("n"),
    "erasures": Table("n"),
    "erasing": Table("n"),
    "changes": Table("n", ("data",)),
}
# Columns with JSON, and the value for unreadable JSON. Any JSON is valid if that is null.
EMPTY_JSON = {"tags": b"[]", "data": b"{}", "metadata": b"{}", "payload": b"null"}
TIMES = {"created_at", "updated_at", "expires_at", "changed_at", "at"}
UNREADABLE = (
    apsw.CorruptError,
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.TooBigError,
    apsw.NoMemError,
)
BATCH = 1000
# Unreadable ranges after which the rest is given up.
MAX_FAILURES = 100_000
LAST_ROW = 1 << 40
_BrokenRow = tuple[int, list[bytes | None], list[bytes | None]]


@cache
def list_tables() -> dict[str, Table]:
    """Return the tables to copy by name, in the order in which they are copied."""
    rows = list_rows()
    first = {one.table: Table(one.row, one.repaired_json) for one in rows if one.before_records}
    others = {one.table: Table(one.row, one.repaired_json) for one in rows}
    return first | OWN_TABLES | others


def salvage_into(new: Path, damaged: Path) -> dict[str, int]:
    """Create a store at `new` with everything readable in `damaged`. Return the number of rows by
    table.

    Raises StoreBroken if nothing can be read.
    """
    open_store_file(new).close()
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    with (
        translate_errors(str(damaged)),
        closing(apsw.Connection(str(new), flags=flags)) as connection,
    ):
        connection.execute("ATTACH ? AS damaged", (f"{damaged.absolute().as_uri()}?mode=ro",))
        # No transaction around the whole copy: one read error would undo all of it. The file is
        # synced when it takes its place.
        connection.pragma("synchronous", "OFF")
        for name, table in list_tables().items():
            if columns := _columns(connection, name):
                _copy_table(connection, name, table, columns)
        _rebuild_derived(connection)
        return {
            name: connection.execute(f"SELECT count(*) FROM main.{name}").get
            for name in list_tables()
        }


def _columns(connection: apsw.Connection, table: str) -> str:
    """Return the columns that the damaged store has, "" if it lacks the table.

    A store of an older version has fewer tables and columns. `parts` is derived again. An integer
    primary key is left out.
    """
    names = connection.execute(
        "SELECT name FROM pragma_table_info(?, 'damaged') "
        "WHERE name <> 'parts' AND NOT (pk = 1 AND type = 'INTEGER')",
        (table,),
    )
    return ", ".join(name for (name,) in names)


def _copy_table(connection: apsw.Connection, name: str, table: Table, columns: str) -> None:
    if not table.key:
        _copy_until_unreadable(connection, name, columns)
        return
    _RangeCopy(connection, name, table.key, columns).copy(1, LAST_ROW)
    types = dict(connection.execute("SELECT name, type FROM pragma_table_info(?)", (name,)))
    # The API could not return a list with an invalid time.
    for time in TIMES & types.keys():
        connection.execute(
            f"UPDATE main.{name} SET {time} = max(0, min({time}, {LAST_MS})) "
            f"WHERE {time} NOT BETWEEN 0 AND {LAST_MS}"
        )
    if texts := [column for column in types if types[column] == "TEXT"]:
        _repair_texts(connection, name, table, texts)


def _rebuild_derived(connection: apsw.Connection) -> None:
    """Derive tables of models, parts of words and the full-text indexes from the copied records."""
    for name in list_hooks("salvage"):
        connection.execute(load(name))
    # A later record may get the row of a lost one.
    connection.execute("DELETE FROM main.appended WHERE row NOT IN (SELECT row FROM main.records)")
    register_parts_of(connection)
    connection.execute(
        "UPDATE main.records SET parts = parts_of(content) WHERE parts_of(content) IS NOT NULL"
    )
    connection.execute("INSERT INTO records_fts(records_fts) VALUES ('rebuild')")
    connection.execute("INSERT INTO parts_fts(parts_fts) VALUES ('rebuild')")


def _repair_texts(connection: apsw.Connection, name: str, table: Table, columns: list[str]) -> None:
    """Repair invalid UTF-8 and JSON, so that records stay readable.

    Rows of other tables with invalid UTF-8 are deleted.
    """
    values = ", ".join(f"{column} = ?" for column in columns)
    update = f"UPDATE main.{name} SET {values} WHERE {table.key} = ?"
    for row, texts, repaired in _broken_rows(connection, name, table, columns):
        if name == "records" or _is_utf8(texts):
            decoded = [None if text is None else text.decode() for text in repaired]
            connection.execute(update, (*decoded, row))
        else:
            connection.execute(f"DELETE FROM main.{name} WHERE {table.key} = ?", (row,))


def _broken_rows(
    connection: apsw.Connection, name: str, table: Table, columns: list[str]
) -> list[_BrokenRow]:
    """Return the rows with a text that needs repair."""
    texts_sql = ", ".join(f"CAST({column} AS BLOB)" for column in columns)
    defaults = [EMPTY_JSON[column] if column in table.json else None for column in columns]
    broken = []
    for row, *texts in connection.execute(f"SELECT {table.key}, {texts_sql} FROM main.{name}"):
        repaired = list(map(_repair, texts, defaults))
        if repaired != texts:
            broken.append((row, texts, repaired))
    return broken


def _repair(text: bytes | None, default: bytes | None) -> bytes | None:
    """Return valid UTF-8. With a `default`, return JSON of the same type as the default, or it."""
    if text is None:
        return None
    repaired = text.decode(errors="replace").encode()
    is_valid = default is None or _is_json(repaired, type(orjson.loads(default)))
    return repaired if is_valid else default


def _is_json(text: bytes, type_: type) -> bool:
    try:
        return isinstance(orjson.loads(text), object if type_ is type(None) else type_)
    except orjson.JSONDecodeError:
        return False


def _is_utf8(texts: list[bytes | None]) -> bool:
    return all(text is None or text.decode(errors="ignore").encode() == text for text in texts)


def _copy_until_unreadable(connection: apsw.Connection, table: str, columns: str) -> None:
    """Copy row by row up to the first unreadable one."""
    marks = ", ".join("?" * len(columns.split(", ")))
    insert = f"INSERT OR IGNORE INTO main.{table}({columns}) VALUES ({marks})"
    try:
        for row in connection.execute(f"SELECT {columns} FROM damaged.{table}"):
            connection.execute(insert, row)
    except (*UNREADABLE, UnicodeDecodeError):
        return


class _RangeCopy:
    """Copies ranges of rows. It halves an unreadable range until only the bad rows remain."""

    def __init__(self, connection: apsw.Connection, table: str, key: str, columns: str) -> None:
        self._connection, self._failures = connection, 0
        names = f"{key}, {columns}"
        self._insert = (
            f"INSERT OR IGNORE INTO main.{table}({names}) SELECT {names} FROM damaged.{table} "
            f"WHERE {key} BETWEEN ? AND ? ORDER BY {key} LIMIT {BATCH}"
        )
        self._last = f"SELECT max({key}) FROM main.{table}"

    def copy(self, first: int, last: int) -> None:
        """Copy all readable rows from `first` to `last`."""
        while first <= last and self._failures < MAX_FAILURES:
            try:
                self._connection.execute(self._insert, (first, last))
            except UNREADABLE:
                self._failures += 1
                if first < last:
                    middle = (first + last) // 2
                    self.copy(first, middle)
                    self.copy(middle + 1, last)
                return
            if self._connection.changes() < BATCH:
                return
            first = self._connection.execute(self._last).get + 1


class Salvaged(NamedTuple):
    """The result of a salvage."""

    path: Path
    # Number of rows by table.
    rows: dict[str, int]
    # Records whose text differs from what was written.
    guids: list[str]
    # Path of the damaged file now, None if there was none.
    kept: Path | None


def salvage_store(path: Path, *, empty: bool) -> Salvaged:
    """Replace the store at `path`, which no program may have open.

    Raises StoreBroken if nothing can be read.
    """
    with draft_file(path, "salvaged") as draft:
        if empty or not path.exists():
            open_store_file(draft).close()
            rows, guids = dict.fromkeys(list_tables(), 0), []
        else:
            rows = salvage_into(draft, path)
            guids = inspect(draft).guids
            # The caller reports them now. A scrub or backup would report them forever.
            accept_texts(draft)
        return Salvaged(path, rows, guids, replace(path, draft))

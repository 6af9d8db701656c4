"""Salvage: replace a damaged store by a new one that has everything that can still be read.

SQLite applies the log next to a file to it. A log that is older than the file, or of another store,
hides its records, so a salvage reads the file with and without its log.
"""

from collections.abc import Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import NamedTuple

import apsw
import orjson

from memrelay.memory.engine.connection import open_store_file, register_parts_of, translate_errors
from memrelay.memory.engine.copy import accept_texts, inspect
from memrelay.memory.engine.damage import structural_faults
from memrelay.memory.engine.disk import draft_file
from memrelay.memory.engine.models import list_hooks, list_rows, load
from memrelay.memory.engine.timestamps import LAST_MS
from memrelay.memory.errors import StoreBroken
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
    "inputs": Table("n"),
}
# Columns with JSON, and the value for unreadable JSON. Any JSON is valid if that is null.
EMPTY_JSON = {"tags": b"[]", "data": b"{}", "metadata": b"{}", "payload": b"null"}
TIMES = {
    "created_at",
    "updated_at",
    "expires_at",
    "valid_from",
    "valid_to",
    "changed_at",
    "at",
}
UNREADABLE = (
    apsw.CorruptError,
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.TooBigError,
    apsw.NoMemError,
)
READ_WRITE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
# Tables that are also copied from the second view, and the rows to leave out: the first view had
# deleted them. Other tables could apply a message twice, or bring back a removed grant.
IS_ERASED = "guid IN (SELECT text FROM main.erasing WHERE sort = 'guid')"
LAST_CHANGE = "SELECT what FROM main.versions AS v WHERE v.guid = r.guid ORDER BY n DESC LIMIT 1"
COPIED_TWICE = {
    "records": f"{IS_ERASED} OR ({LAST_CHANGE}) IS 'delete'",
    "versions": IS_ERASED,
}
HAVE_COMMON = (
    "SELECT EXISTS (SELECT 1 FROM plain.records AS r "
    "WHERE guid IN (SELECT guid FROM logged.records) OR guid IN (SELECT guid FROM logged.versions))"
)
BATCH = 1000
# Unreadable ranges after which the rest is given up. Where the end of a file is missing, all ranges
# up to LAST_ROW are unreadable.
MAX_FAILURES = 30_000
LAST_ROW = 1 << 40
_BrokenRow = tuple[int, list[bytes | None], list[bytes | None]]


@cache
def list_tables() -> dict[str, Table]:
    """Return the tables to copy by name, in the order in which they are copied."""
    rows = list_rows()
    first = {one.table: Table(one.row, one.repaired_json) for one in rows if one.before_records}
    others = {one.table: Table(one.row, one.repaired_json) for one in rows}
    return first | OWN_TABLES | others


class Copied(NamedTuple):
    """What a salvage copied."""

    # Number of rows by table.
    rows: dict[str, int]
    # Sentences on a log that does not fit its file.
    notes: list[str]


class _View(NamedTuple):
    """A damaged file as SQLite reads it with or without its log."""

    parameters: str
    # Whether SQLite finds no fault.
    is_sound: bool
    # Number of its last commit, -1 if it cannot be read.
    commits: int


# Parameters of a view. An immutable file is read without its log.
WITH_LOG, WITHOUT_LOG = "mode=ro", "mode=ro&immutable=1"


def salvage_into(new: Path, damaged: Path) -> Copied:
    """Create a store at `new` with everything readable in `damaged` and its log.

    Raises StoreBroken if nothing can be read.
    """
    with translate_errors(str(damaged)):
        views, notes = _choose_views(damaged)
    open_store_file(new).close()
    with (
        translate_errors(str(damaged)),
        closing(apsw.Connection(str(new), flags=READ_WRITE)) as connection,
    ):
        # No transaction around the whole copy: one read error would undo all of it. The file is
        # synced when it takes its place.
        connection.pragma("synchronous", "OFF")
        _copy_view(connection, damaged, views[0], dict.fromkeys(list_tables(), "0"))
        if len(views) > 1:
            before = _count(connection, "records")
            _copy_view(connection, damaged, views[1], COPIED_TWICE)
            notes += _describe_added(_count(connection, "records") - before, views[1])
        _rebuild_derived(connection)
        return Copied({name: _count(connection, name) for name in list_tables()}, notes)


def _choose_views(damaged: Path) -> tuple[list[_View], list[str]]:
    """Return the views to copy, the best one first, and notes on a log that is left out.

    The log may be older than the file, or belong to another one.
    """
    log = Path(f"{damaged}-wal")
    has_log = log.exists() and log.stat().st_size > 0
    views, error = [], None
    for parameters in (WITH_LOG, WITHOUT_LOG) if has_log else (WITH_LOG,):
        try:
            views.append(_examine(damaged, parameters))
        except (apsw.CorruptError, apsw.NotADBError) as unreadable:
            error = unreadable
    if not views:
        raise StoreBroken(
            f"{damaged}: nothing in it can be read, with or without its log ({error}); if the file "
            f"or the log {log.name} belongs to another store, remove that one and put back the "
            "right file; else restore a backup with `memrelay restore`, or start with an empty "
            "store: `memrelay salvage PIPELINE --empty`"
        ) from error
    if len(views) > 1 and _is_foreign_log(damaged):
        return views[1:], [f"{log.name} has records of another store only, and was not used"]
    # The sort is stable: with the log comes first.
    views.sort(key=lambda view: (view.is_sound, view.commits), reverse=True)
    if views[0].is_sound and views[0].commits >= views[-1].commits:
        # It is complete. The other one would bring back what was deleted.
        return views[:1], []
    return views, []


def _examine(damaged: Path, parameters: str) -> _View:
    with closing(apsw.Connection(":memory:", flags=READ_WRITE)) as connection:
        _attach(connection, damaged, parameters, "damaged")
        is_sound = not structural_faults(connection, pragma="damaged.quick_check")
        try:
            commits = connection.execute("SELECT n FROM damaged.commits").get
        except (*UNREADABLE, apsw.SQLError):
            commits = None
        return _View(parameters, is_sound, commits if isinstance(commits, int) else -1)


def _attach(connection: apsw.Connection, damaged: Path, parameters: str, name: str) -> None:
    # It lets SQLite read a file that is shorter than its header says.
    connection.pragma("writable_schema", "ON")
    connection.execute(f"ATTACH ? AS {name}", (f"{damaged.absolute().as_uri()}?{parameters}",))
    connection.execute(f"SELECT 1 FROM {name}.sqlite_schema LIMIT 1")


def _is_foreign_log(damaged: Path) -> bool:
    """Return whether the file has records, and the log hides all of them and has others."""
    with closing(apsw.Connection(":memory:", flags=READ_WRITE)) as connection:
        _attach(connection, damaged, WITH_LOG, "logged")
        _attach(connection, damaged, WITHOUT_LOG, "plain")
        try:
            has_records = connection.execute(
                "SELECT EXISTS (SELECT 1 FROM plain.records) "
                "AND EXISTS (SELECT 1 FROM logged.records)"
            ).get
            return bool(has_records) and not connection.execute(HAVE_COMMON).get
        except (*UNREADABLE, apsw.SQLError):
            return False


def _copy_view(
    connection: apsw.Connection, damaged: Path, view: _View, left_out: Mapping[str, str]
) -> None:
    """Copy tables, each without the rows `r` for which the SQL in `left_out` is true."""
    _attach(connection, damaged, view.parameters, "damaged")
    for name, condition in left_out.items():
        if columns := _columns(connection, name):
            _copy_table(connection, name, columns, condition)
    connection.execute("DETACH damaged")


def _count(connection: apsw.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM main.{table}").get)


def _describe_added(count: int, view: _View) -> list[str]:
    if not count:
        return []
    where = "in the file without its log" if view.parameters == WITHOUT_LOG else "in the log"
    return [
        f"{count} of the records are only {where}; check them, because the log may be older or "
        "belong to another store"
    ]


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


def _copy_table(connection: apsw.Connection, name: str, columns: str, left_out: str) -> None:
    table = list_tables()[name]
    if not table.key:
        _copy_until_unreadable(connection, name, columns)
        return
    _RangeCopy(connection, name, table.key, columns, left_out).copy(1, LAST_ROW)
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
    # Messages with `wf_flow` wait anew, because the state of their keys is not copied.
    connection.execute("UPDATE main.pending SET flow = NULL")
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

    def __init__(
        self, connection: apsw.Connection, table: str, key: str, columns: str, left_out: str
    ) -> None:
        """`left_out` is SQL that is true for rows `r` that are not copied."""
        self._connection, self._failures = connection, 0
        names = f"{key}, {columns}"
        where = f"FROM damaged.{table} AS r WHERE {key} BETWEEN ? AND ?"
        # Apart from the copy, which ignores rows that the new store has.
        self._end = f"SELECT max({key}) FROM (SELECT {key} {where} ORDER BY {key} LIMIT {BATCH})"
        self._insert = (
            f"INSERT OR IGNORE INTO main.{table}({names}) SELECT {names} {where} "
            f"AND NOT ({left_out})"
        )

    def copy(self, first: int, last: int) -> None:
        """Copy all readable rows from `first` to `last`."""
        while first <= last and self._failures < MAX_FAILURES:
            try:
                end = self._connection.execute(self._end, (first, last)).get
                if end is None:
                    return
                self._connection.execute(self._insert, (first, end))
            except UNREADABLE:
                self._failures += 1
                if first < last:
                    middle = (first + last) // 2
                    self.copy(first, middle)
                    self.copy(middle + 1, last)
                return
            first = end + 1


class Salvaged(NamedTuple):
    """The result of a salvage."""

    path: Path
    # Number of rows by table.
    rows: dict[str, int]
    # Records whose text differs from what was written.
    guids: list[str]
    # Path of the damaged file now, None if there was none.
    kept: Path | None
    # Sentences on a log that does not fit its file.
    notes: list[str]


def salvage_store(path: Path, *, empty: bool) -> Salvaged:
    """Replace the store at `path`, which no program may have open.

    Raises StoreBroken if nothing can be read.
    """
    with draft_file(path, "salvaged") as draft:
        if empty or not path.exists():
            open_store_file(draft).close()
            rows, guids, notes = dict.fromkeys(list_tables(), 0), [], list[str]()
        else:
            rows, notes = salvage_into(draft, path)
            guids = inspect(draft).guids
            # The caller reports them now. A scrub or backup would report them forever.
            accept_texts(draft)
        kept = replace(path, draft, keeps_past=False)
        return Salvaged(path, rows, guids, kept, notes)

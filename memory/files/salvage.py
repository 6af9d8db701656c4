"""A damaged store is replaced by a new one with what can still be read of it."""

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import apsw
import orjson

from memrelay.memory.disk import drafted
from memrelay.memory.files.backup import replace
from memrelay.memory.sqlite.connection import know_parts, open_store_file, translated
from memrelay.memory.sqlite.copy import accept_texts, inspect
from memrelay.memory.timestamps import LAST_MS

# Copies what can still be read of a damaged store into a new one.

# By which rows are found.
KEYS = {
    "memories": "row",
    "entries": "",
    "records": "row",
    "versions": "n",
    "inbox": "n",
    "pending": "rowid",
    "attempts": "",
    "producer_ids": "",
    "erasures": "n",
    "erasing": "n",
}
REMEMBERED = ("records", "versions", "memories")
EMPTY = {"tags": b"[]", "data": b"{}"}  # columns with JSON
TIMES = {"created_at", "updated_at", "expires_at", "changed_at"}
UNREADABLE = (
    apsw.CorruptError,
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.TooBigError,
    apsw.NoMemError,
)
TOGETHER = 1000
MOST_FAILURES = 100_000  # places that cannot be read, after which the rest is given up
LAST_ROW = 1 << 40
# What entries say is looked at anew, since records may be lost or mended, and the lines of entries
# are not copied.
ENTRIES = (
    "DELETE FROM main.entries WHERE guid NOT IN (SELECT guid FROM main.records WHERE kind = 'entry');"
    "UPDATE main.entries SET digested = 0, memory = (SELECT scope FROM main.records AS r WHERE r.guid = entries.guid)"
)


def salvage_into(new: Path, damaged: Path) -> dict[str, int]:
    """Makes a store at `new` of what `damaged` still has; rows by table. Raises StoreBroken where
    nothing can be read."""
    open_store_file(new).close()
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    with translated(str(damaged)), closing(apsw.Connection(str(new), flags=flags)) as connection:
        connection.execute("ATTACH ? AS damaged", (f"{damaged.absolute().as_uri()}?mode=ro",))
        columns = {
            table: names for table in KEYS if (names := _columns(connection, table))
        }  # an older store has fewer
        # No transaction around it all: once something in one cannot be read, nothing is. It is
        # synced when it is in place.
        connection.pragma("synchronous", "OFF")
        for table in columns:
            key = KEYS[table]
            if key:
                _Copy(connection, table, key, columns[table]).between(1, LAST_ROW)
            else:
                _copy_as_far_as_it_goes(connection, table, columns[table])
            if key:
                _mend(connection, table, key)
        connection.execute(ENTRIES)
        know_parts(connection)
        connection.execute(
            "UPDATE main.records SET parts = parts_of(content) WHERE parts_of(content) IS NOT NULL"
        )
        connection.execute("INSERT INTO records_fts(records_fts) VALUES ('rebuild')")
        connection.execute("INSERT INTO parts_fts(parts_fts) VALUES ('rebuild')")
        return {
            table: connection.execute(f"SELECT count(*) FROM main.{table}").get for table in KEYS
        }


def _columns(connection: apsw.Connection, table: str) -> str:
    """Those that the damaged store has; an older one has fewer. What follows from others is made
    anew."""
    names = connection.execute(
        "SELECT name FROM pragma_table_info(?, 'damaged') WHERE name <> 'parts'", (table,)
    )
    return ", ".join(name for (name,) in names)


def _mend(connection: apsw.Connection, table: str, key: str) -> None:
    """Texts that are none any more: of a record they are mended, so that it can be read; any other
    row goes.

    Tags and `data` that are no JSON, and times that are none, would keep every list from being
    told: they are mended too.
    """
    kinds = {
        str(name): kind
        for name, kind in connection.execute(
            "SELECT name, type FROM pragma_table_info(?)", (table,)
        )
    }
    for name in TIMES & kinds.keys():
        connection.execute(
            f"UPDATE main.{table} SET {name} = max(0, min({name}, {LAST_MS})) "
            f"WHERE {name} NOT BETWEEN 0 AND {LAST_MS}"
        )
    columns = [name for name, kind in kinds.items() if kind == "TEXT"]
    rows = connection.execute(
        f"SELECT {key}, {', '.join(f'CAST({name} AS BLOB)' for name in columns)} FROM main.{table}"
    )
    empty = EMPTY if table in REMEMBERED else {}
    update = (
        f"UPDATE main.{table} SET {', '.join(f'{name} = ?' for name in columns)} WHERE {key} = ?"
    )
    spoilt = [
        (row, texts, mended)
        for row, *texts in rows
        if (
            mended := [
                _mended(text, empty.get(name)) for name, text in zip(columns, texts, strict=True)
            ]
        )
        != texts
    ]
    for row, texts, mended in spoilt:
        if table == "records" or _is_text(texts):
            connection.execute(
                update, (*(None if text is None else text.decode() for text in mended), row)
            )
        else:
            connection.execute(f"DELETE FROM main.{table} WHERE {key} = ?", (row,))


def _mended(text: bytes | None, empty: bytes | None) -> bytes | None:
    """As text, and where it is to be JSON as JSON of that sort."""
    if text is None:
        return None
    mended = text.decode(errors="replace").encode()
    return mended if empty is None or _is_json(mended, type(orjson.loads(empty))) else empty


def _is_json(text: bytes, sort: type) -> bool:
    try:
        return isinstance(orjson.loads(text), sort)
    except orjson.JSONDecodeError:
        return False


def _is_text(texts: list[bytes | None]) -> bool:
    return all(text is None or text.decode(errors="ignore").encode() == text for text in texts)


def _copy_as_far_as_it_goes(connection: apsw.Connection, table: str, columns: str) -> None:
    """Row by row from the beginning."""
    insert = f"INSERT OR IGNORE INTO main.{table}({columns}) VALUES ({', '.join('?' * len(columns.split(', ')))})"
    try:
        for row in connection.execute(f"SELECT {columns} FROM damaged.{table}"):
            connection.execute(insert, row)
    except (*UNREADABLE, UnicodeDecodeError):
        return


class _Copy:
    """Copies ranges of rows; one that cannot be read is halved until what is bad stands alone."""

    def __init__(self, connection: apsw.Connection, table: str, key: str, columns: str) -> None:
        self._connection, self._failures = connection, 0
        self._insert = (
            f"INSERT OR IGNORE INTO main.{table}({key}, {columns.removeprefix(f'{key}, ')}) SELECT {key}, "
            f"{columns.removeprefix(f'{key}, ')} FROM damaged.{table} WHERE {key} BETWEEN ? AND ? ORDER BY {key} "
            f"LIMIT {TOGETHER}"
        )
        self._last = f"SELECT max({key}) FROM main.{table}"

    def between(self, first: int, last: int) -> None:
        """Everything from row `first` to `last` that can be read."""
        while first <= last and self._failures < MOST_FAILURES:
            try:
                self._connection.execute(self._insert, (first, last))
            except UNREADABLE:
                self._failures += 1
                if first < last:
                    middle = (first + last) // 2
                    self.between(first, middle)
                    self.between(middle + 1, last)
                return
            if self._connection.changes() < TOGETHER:
                return
            first = self._connection.execute(self._last).get + 1


class Salvaged(NamedTuple):
    """What became of a store."""

    path: Path
    rows: dict[str, int]  # by table
    guids: list[str]  # of records whose text is not what was written
    kept: Path | None  # where the damaged file is now


def salvage_store(path: Path, *, empty: bool) -> Salvaged:
    """Replaces the store at `path`, which nobody may have open. Raises StoreBroken where nothing of
    it can be read."""
    with drafted(path, "salvaged") as draft:
        if empty or not path.exists():
            open_store_file(draft).close()
            rows, guids = dict.fromkeys(KEYS, 0), []
        else:
            rows = salvage_into(draft, path)
            guids = inspect(draft).guids
            accept_texts(
                draft
            )  # whoever salvages is told of them; a scrub and a backup would name them for ever
        return Salvaged(path, rows, guids, replace(path, draft))

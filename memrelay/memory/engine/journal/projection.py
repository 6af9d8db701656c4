"""Keeps readable tables in PostgreSQL up to date, for people who query with SQL (`storage.tables`).

A thread follows the journals of the stores that this worker owns. It reads which rows a commit has
changed, and copies these rows from the file of the store. The tables are in the schema
`memrelay_tables`. They are about a second behind.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import numpy as np
import psycopg
from psycopg import Connection

from memrelay.logs import get_logger
from memrelay.memory.engine.connection import translate_errors
from memrelay.memory.engine.journal.patches import Patch, Position, read_position
from memrelay.memory.engine.journal.postgres import PostgresJournals
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.errors import MemoryFault, StoreBroken, StoreBusy
from memrelay.memory.postgres import END_SILENT_TRANSACTIONS, OPTIONS, describe

log = get_logger(__name__)
PAUSE_S = 1.0
# Rows that are copied together.
TOGETHER = 500
SCHEMA = "memrelay_tables"
TEXTS = "records", "versions", "entries"
CREATE = (
    "CREATE TABLE IF NOT EXISTS progress(store text PRIMARY KEY, generation bigint NOT NULL, "
    "n bigint NOT NULL)",
    "CREATE TABLE IF NOT EXISTS records(store text, row bigint, guid text NOT NULL, scope text, "
    "kind text, content text, source text, tags jsonb, created_at timestamptz, "
    "updated_at timestamptz, key text, owner text, data jsonb, expires_at timestamptz, "
    "thread text, seq bigint, PRIMARY KEY (store, row))",
    "CREATE INDEX IF NOT EXISTS records_guid ON records(guid)",
    "CREATE TABLE IF NOT EXISTS versions(store text, n bigint, guid text NOT NULL, number bigint, "
    "content text, what text, changed_at timestamptz, actor text, reason text, "
    "PRIMARY KEY (store, n))",
    "CREATE TABLE IF NOT EXISTS entries(store text, guid text, memory text, "
    "confirmations bigint, confirmed_at timestamptz, PRIMARY KEY (store, guid))",
)
CREATE_VECTORS = (
    "CREATE EXTENSION IF NOT EXISTS vector SCHEMA public",
    "CREATE TABLE IF NOT EXISTS vectors(store text, row bigint, vector vector, "
    "PRIMARY KEY (store, row))",
)
# Values of items that are internal or encrypted stay in the store.
VISIBLE = "NOT (kind = 'store.item' AND (encrypted OR NOT in_context))"


class _Copied(NamedTuple):
    """A table, and how its rows are read from the file of a store.

    `tables` are those of the file whose rows select by `key`; the value is the position of the key
    in their rows. `times` and `texts` are the positions of times and of JSON in a selected row.
    """

    name: str
    key: str
    select: str
    tables: dict[str, int]
    times: tuple[int, ...] = ()


RECORDS = _Copied(
    "records",
    "row",
    "SELECT row, guid, scope, kind, content || coalesce((SELECT group_concat(text, '' ORDER BY n) "
    "FROM appended WHERE appended.row = records.row), ''), source, tags, created_at, updated_at, "
    f"key, owner, data, expires_at, thread, seq FROM records WHERE {VISIBLE}",
    {"records": 0, "appended": 1},
    (7, 8, 12),
)
VERSIONS = _Copied(
    "versions",
    "n",
    "SELECT n, guid, number, content, what, changed_at, actor, reason FROM versions "
    f"WHERE {VISIBLE}",
    {"versions": 0},
    (5,),
)
ENTRIES = _Copied(
    "entries",
    "guid",
    "SELECT guid, memory, confirmations, confirmed_at FROM entries WHERE true",
    {"entries": 0},
    (3,),
)
VECTORS = _Copied(
    "vectors",
    "row",
    "SELECT row, vector FROM (SELECT row, vector, 0 AS place FROM vectors_0 UNION ALL "
    "SELECT row, vector, 1 FROM vectors_1) WHERE length(vector) > 0 "
    "AND place = (SELECT place FROM vector_sets WHERE serves)",
    {"vectors_0": 0, "vectors_1": 0},
)
# Its column `serves` selects the vectors.
SETS, SERVES = "vector_sets", 3


@dataclass
class _Touched:
    """The keys of rows that commits have changed, by table."""

    keys: dict[str, set[Any]] = field(default_factory=dict)
    needs_all: bool = False

    def add(self, patch: Patch, copied: Sequence[_Copied]) -> None:
        """Add the rows of a commit."""
        places = [(table, one.name, at) for one in copied for table, at in one.tables.items()]
        for change in apsw.Changeset.iter(patch.changes):
            values = (change.new if change.op == "INSERT" else change.old) or ()
            if change.name == SETS and change.new and change.new[SERVES] is not apsw.no_change:
                self.needs_all = True
            for table, name, at in places:
                if change.name == table and isinstance(values[at], int | str):
                    self.keys.setdefault(name, set()).add(values[at])


class _Tables(NamedTuple):
    """The journals, the connection to the readable tables, and these tables."""

    journals: PostgresJournals
    target: Connection[Any]
    copied: list[_Copied]


class Projector:
    """Keeps the tables of the stores that were woken up to date, in a thread."""

    def __init__(self, root: Path, url: str) -> None:
        self._root, self._url = root, url
        self._wanted: dict[str, int] = {}
        self._lock, self._ending = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="projection", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread after the current store."""
        self._ending.set()
        self._thread.join()

    def wake(self, store: str, epoch: int) -> None:
        """Announce a commit to a store by its owner."""
        with self._lock:
            self._wanted[store] = epoch

    def rewrite(self, store: str, epoch: int) -> None:
        """Copy a store again, and remove earlier texts from the files of PostgreSQL.

        Raises StoreBusy.
        """
        try:
            with self._opened() as tables:
                self._project(tables, store, epoch)
                for table in TEXTS:
                    tables.target.execute(f"VACUUM FULL {table}".encode())
        except psycopg.Error as error:
            raise StoreBusy(
                f"PostgreSQL (storage.url): {describe(error)}; it is retried"
            ) from error

    def _run(self) -> None:
        while not self._ending.wait(PAUSE_S):
            with self._lock:
                wanted, self._wanted = self._wanted, {}
            try:
                if wanted:
                    self._project_each(wanted)
            except (psycopg.Error, MemoryFault) as error:
                self._put_back(wanted, error)

    def _project_each(self, wanted: dict[str, int]) -> None:
        with self._opened() as tables:
            for store, epoch in wanted.items():
                try:
                    self._project(tables, store, epoch)
                except (StoreBusy, StoreBroken, apsw.Error, OSError) as error:
                    self._put_back({store: epoch}, error)

    def _put_back(self, wanted: dict[str, int], error: Exception) -> None:
        log.warning("projection_failed", stores=list(wanted)[:5], reason=str(error)[:300])
        with self._lock:
            self._wanted = wanted | self._wanted

    @contextmanager
    def _opened(self) -> Iterator[_Tables]:
        connect = partial(psycopg.connect, autocommit=True, prepare_threshold=None)
        with (
            closing(PostgresJournals(self._url)) as journals,
            connect(self._url, **OPTIONS) as target,
        ):
            target.execute(END_SILENT_TRANSACTIONS)
            yield _Tables(journals, target, _prepare(target))

    def _project(self, tables: _Tables, store: str, epoch: int) -> None:
        """Bring the tables of a store up to date, if its owner still has this epoch."""
        journals, target, copied = tables
        entry = journals.look(store)
        if entry is None or entry.epoch != epoch:
            return
        path = store_path(self._root, store)
        with (
            translate_errors(str(path)),
            closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as source,
            source,
        ):
            position = read_position(source)
            if position is None or position.generation != entry.generation:
                return
            done = _progress(target, store)
            touched = _touched_since(journals, store, position, done, copied)
            with target.transaction():
                for one in copied:
                    _copy(source, target, store, one, touched)
                _set_progress(target, store, position, done)


def _prepare(target: Connection[Any]) -> list[_Copied]:
    """Create the tables, and return those that exist. Vectors need the extension pgvector."""
    target.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    target.execute(f"SET search_path TO {SCHEMA}, public")
    for statement in CREATE:
        target.execute(statement.encode())
    with suppress(psycopg.DatabaseError):
        for statement in CREATE_VECTORS:
            target.execute(statement.encode())
        return [RECORDS, VERSIONS, ENTRIES, VECTORS]
    return [RECORDS, VERSIONS, ENTRIES]


def _progress(target: Connection[Any], store: str) -> tuple[int, int] | None:
    cursor = target.execute("SELECT generation, n FROM progress WHERE store = %s", (store,))
    row = cursor.fetchone()
    return None if row is None else (row[0], row[1])


def _set_progress(
    target: Connection[Any], store: str, position: Position, before: tuple[int, int] | None
) -> None:
    """Set the progress of a store. Raises StoreBusy: another worker has set it meanwhile."""
    cursor = target.execute(
        "INSERT INTO progress VALUES (%s, %s, %s) ON CONFLICT (store) DO UPDATE "
        "SET generation = excluded.generation, n = excluded.n "
        "WHERE (progress.generation, progress.n) = (%s, %s)",
        (store, position.generation, position.n, *(before or (0, 0))),
    )
    if not cursor.rowcount:
        raise StoreBusy(f"another worker copies {store} to {SCHEMA}; it is retried")


def _touched_since(
    journals: PostgresJournals,
    store: str,
    position: Position,
    done: tuple[int, int] | None,
    copied: Sequence[_Copied],
) -> _Touched:
    """Return the rows that were changed since `done`, all if the journal no longer knows them."""
    touched = _Touched()
    if done is None or done[0] != position.generation:
        touched.needs_all = True
        return touched
    last = done[1]
    for patch in journals.patches(store, position.generation, last):
        touched.add(patch, copied)
        last = patch.n
    touched.needs_all |= last < position.n
    return touched


def _copy(
    source: apsw.Connection, target: Connection[Any], store: str, one: _Copied, touched: _Touched
) -> None:
    """Replace the touched rows of a table, or all."""
    if touched.needs_all:
        target.execute(f"DELETE FROM {one.name} WHERE store = %s".encode(), (store,))
        _insert(target, store, one, source.execute(one.select))
        return
    keys = sorted(touched.keys.get(one.name, ()))
    for first in range(0, len(keys), TOGETHER):
        some = keys[first : first + TOGETHER]
        target.execute(
            f"DELETE FROM {one.name} WHERE store = %s AND {one.key} = ANY(%s)".encode(),
            (store, some),
        )
        marks = ", ".join("?" * len(some))
        rows = source.execute(f"{one.select} AND {one.key} IN ({marks})", some)
        _insert(target, store, one, rows)


def _insert(
    target: Connection[Any], store: str, one: _Copied, rows: Iterable[Sequence[Any]]
) -> None:
    with target.cursor().copy(f"COPY {one.name} FROM STDIN".encode()) as copy:
        for row in rows:
            copy.write_row((store, *_values(row, one.times)))


def _values(row: Sequence[Any], times: Sequence[int]) -> Iterator[Any]:
    """Yield the values as PostgreSQL takes them: it stores no NUL character in a text."""
    for at, value in enumerate(row):
        if value is not None and at in times:
            yield datetime.fromtimestamp(value / 1000, UTC)
        elif isinstance(value, bytes):
            yield str(np.frombuffer(value, "<f2").tolist())
        elif isinstance(value, str):
            yield value.replace("\0", "\N{SYMBOL FOR NULL}").replace("\\u0000", "\\u2400")
        else:
            yield value

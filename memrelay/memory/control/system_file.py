"""The control plane's file, `system.db`: its schema, connection, transactions and errors.

It has a rollback journal, because several processes of a host open it.
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Self

import aiosqlite

from memrelay.logs import get_logger
from memrelay.memory.control.database import Row, Sql
from memrelay.memory.engine.disk import (
    FREE_SPACE,
    ROOM_OR_DISK,
    clear_drafts,
    inode_of,
    is_disk_full,
    write_whole_file,
)
from memrelay.memory.engine.memory_id import list_stores
from memrelay.memory.errors import StoreBroken, StoreBusy

log = get_logger(__name__)
NAME = "system.db"
LOST = (
    "the new file has no bundle, key or dead letter of these stores; if the old file was lost, "
    "stop Memrelay and run `memrelay restore FOLDER --force`, else deploy the bundle of "
    "instances/UID with `memrelay deploy FILE --uid UID`"
)
# SQLite also reports them for read errors of the disk.
DAMAGED = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
)
ACCESS_HINT = "; this user must be able to write to it, and to its folder"
HINTS = {
    sqlite3.SQLITE_FULL: f"; {FREE_SPACE}",
    sqlite3.SQLITE_IOERR: f"; {ROOM_OR_DISK}",
    sqlite3.SQLITE_READONLY: ACCESS_HINT,
    sqlite3.SQLITE_CANTOPEN: ACCESS_HINT,
}
TRANSIENT = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
EMPTY = (
    "it is empty: bundles, keys and dead letters are lost. Restore a backup with `memrelay "
    "restore`, or remove the file: Memrelay then creates a new one, and HTTP requires no key until "
    "you create one"
)

# Migrations of the schema, appended and never edited, because existing files ran the earlier ones.

BUNDLES_AND_DEAD_LETTERS = (
    "CREATE TABLE bundles(hash TEXT PRIMARY KEY, source BLOB NOT NULL)",
    "CREATE TABLE pipelines(uid TEXT PRIMARY KEY, name TEXT NOT NULL, hash TEXT NOT NULL, "
    "version INTEGER NOT NULL, deployed_at INTEGER NOT NULL)",
    "CREATE TABLE dead_letters(pipeline TEXT NOT NULL, id TEXT NOT NULL, swarm TEXT NOT NULL, "
    "data BLOB NOT NULL, error TEXT NOT NULL, bundle TEXT NOT NULL, buried_at INTEGER NOT NULL, "
    "PRIMARY KEY(pipeline, id))",
)
VERSIONS = (
    "CREATE TABLE versions(uid TEXT NOT NULL, version INTEGER NOT NULL, name TEXT NOT NULL, "
    "hash TEXT NOT NULL, deployed_at INTEGER NOT NULL, PRIMARY KEY(uid, version)) WITHOUT ROWID",
    # Only the active versions are known: earlier ones were not kept before this migration.
    "INSERT INTO versions SELECT uid, version, name, hash, deployed_at FROM pipelines",
)
# All fields that a replay needs, and `n`, an increasing number that is the position of a letter in
# lists.
DEAD_LETTERS_TO_REPLAY = (
    "CREATE TABLE letters(n INTEGER PRIMARY KEY AUTOINCREMENT, pipeline TEXT NOT NULL, "
    "id TEXT NOT NULL, swarm TEXT NOT NULL, data BLOB NOT NULL, error TEXT NOT NULL, "
    "bundle TEXT NOT NULL, buried_at INTEGER NOT NULL, agent TEXT NOT NULL, "
    "producer_id TEXT NOT NULL, hop TEXT NOT NULL, heard INTEGER NOT NULL, "
    "attempts INTEGER NOT NULL, entry TEXT NOT NULL, UNIQUE(pipeline, id))",
    "INSERT INTO letters SELECT NULL, old.*, '', '', '', 0, 1, id FROM dead_letters AS old "
    "ORDER BY buried_at, rowid",
    "DROP TABLE dead_letters",
    "ALTER TABLE letters RENAME TO dead_letters",
)
KEYS_AND_SESSIONS = (
    "CREATE TABLE keys(id TEXT PRIMARY KEY, name TEXT NOT NULL, digest BLOB NOT NULL, "
    "scopes TEXT NOT NULL, pipelines TEXT NOT NULL, created_at INTEGER NOT NULL, "
    "expires_at INTEGER, revoked_at INTEGER)",
    "CREATE TABLE sessions(digest BLOB PRIMARY KEY, key TEXT NOT NULL, "
    "expires_at INTEGER NOT NULL)",
)
TRACES = ("ALTER TABLE dead_letters ADD COLUMN traceparent TEXT NOT NULL DEFAULT ''",)
WAYS_IN = ("ALTER TABLE dead_letters ADD COLUMN via TEXT NOT NULL DEFAULT ''",)
# A grant to an OAuth client is a key with a parent. Codes, tokens and registered clients are rows.
OAUTH = (
    "ALTER TABLE keys ADD COLUMN parent TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE keys ADD COLUMN client TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE keys ADD COLUMN resource TEXT NOT NULL DEFAULT ''",
    "CREATE TABLE oauth_clients(id TEXT PRIMARY KEY, name TEXT NOT NULL, "
    "redirect_uris TEXT NOT NULL, created_at INTEGER NOT NULL, used_at INTEGER)",
    "CREATE TABLE oauth_codes(digest BLOB PRIMARY KEY, consent TEXT NOT NULL, "
    "expires_at INTEGER NOT NULL, used_at INTEGER, key TEXT NOT NULL DEFAULT '')",
    "CREATE TABLE oauth_tokens(digest BLOB PRIMARY KEY, key TEXT NOT NULL, kind TEXT NOT NULL, "
    "expires_at INTEGER NOT NULL, used_at INTEGER)",
    "CREATE INDEX oauth_tokens_by_key ON oauth_tokens(key)",
)
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    BUNDLES_AND_DEAD_LETTERS,
    VERSIONS,
    DEAD_LETTERS_TO_REPLAY,
    KEYS_AND_SESSIONS,
    TRACES,
    WAYS_IN,
    OAUTH,
)


class _Connection:
    """The open connection, for the statements of the control plane."""

    def __init__(self, database: aiosqlite.Connection) -> None:
        self._database = database

    async def fetch(self, sql: str, values: Row = ()) -> list[Row]:
        return list(await self._database.execute_fetchall(sql, values))

    async def change(self, sql: str, values: Row = ()) -> int:
        async with self._database.execute(sql, values) as cursor:
            return cursor.rowcount

    async def change_many(self, sql: str, rows: Iterable[Row]) -> None:
        await self._database.executemany(sql, rows)


class SystemFile:
    """The open file in the memory root `root`. Use it as an async context manager.

    Opening creates the file if needed. It raises StoreBroken, and StoreBusy if the file is locked
    or the disk is full. The methods raise StoreBusy while another program locks the file.
    """

    def __init__(self, root: Path) -> None:
        self.path = root / NAME
        self._database: aiosqlite.Connection
        self._inode = 0
        # A connection has one transaction, and several tasks use it.
        self._transaction_lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self.path.exists():
                self._create()
            # Fail here if the file cannot be opened: aiosqlite's thread would outlive that error.
            sqlite3.connect(self.path).close()
        except (OSError, sqlite3.Error) as error:
            raise _error_type(error)(
                f"{self.path} cannot be opened: {error}{_hint(error)}"
            ) from error
        opening = asyncio.create_task(self._open())
        try:
            await asyncio.shield(opening)
        # Its thread must not outlive the loop.
        except asyncio.CancelledError:
            with suppress(StoreBroken, StoreBusy):
                await opening
                await self._database.close()
            raise
        return self

    def _create(self) -> None:
        """Create the file. Log a warning if there are stores already, because the old file may be
        lost.
        """
        stores = list_stores(self.path.parent)
        _create_file(self.path.resolve())
        if stores:
            log.warning(
                "system_db_recreated",
                file=str(self.path),
                stores=len(stores),
                remedy=LOST,
            )

    async def _open(self) -> None:
        self._database = await aiosqlite.connect(self.path, isolation_level=None)
        try:
            await _prepare(self._database)
        except (aiosqlite.DatabaseError, StoreBroken) as error:
            await self._database.close()
            raise _error_type(error)(
                f"{self.path} cannot be used: {error}{_hint(error)}"
            ) from error
        self._inode = inode_of(self.path)

    async def __aexit__(self, *_: object) -> None:
        await self._database.close()

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[Sql]:
        """Yield the connection inside a transaction, which is committed at the end or rolled back
        on an error.
        """
        with self._translate_errors():
            async with self._transaction_lock, _transaction(self._database):
                yield _Connection(self._database)

    async def rewrite(self) -> None:
        """Rewrite the file without deleted data and remove drafts of killed programs.

        Only the worker calls it, so no restore runs at the same time. Raises StoreBusy.
        """
        with self._translate_errors():
            async with self._transaction_lock:
                await self._database.execute("VACUUM")
        clear_drafts(self.path)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Sql]:
        """Yield the connection for one statement.

        Raises StoreBusy: another file, or none, is now at the path.
        """
        with self._translate_errors():
            yield _Connection(self._database)

    async def identify(self) -> str:
        """Return the folder of the file."""
        return str(self.path.parent.resolve())

    async def measure(self) -> int:
        """Return 0: it is a file."""
        return 0

    async def read_version(self) -> tuple[int, int]:
        """Return a value that changes with every change of the file."""
        with self._translate_errors():
            ((others,),) = await self._database.execute_fetchall("PRAGMA data_version")
            return others, self._database.total_changes

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        # Nobody else would read changes to this file.
        if self._inode_at_path() != self._inode:
            raise StoreBusy(
                f"{self.path} was moved or replaced while open; put it back, or restart this "
                "program"
            )
        try:
            yield
        except sqlite3.OperationalError as error:
            raise StoreBusy(f"{self.path}: {self._reason(error)}; it is retried") from error
        except sqlite3.DatabaseError as error:
            if _code(error) not in DAMAGED:
                raise
            raise StoreBroken(
                f"{self.path} is damaged or unreadable: {error}; check the disk (see the system "
                "log), or stop Memrelay and restore a backup with `memrelay restore FOLDER --force`"
            ) from error

    def _inode_at_path(self) -> int:
        try:
            return inode_of(self.path)
        except OSError as error:
            raise StoreBusy(
                f"{self.path} cannot be accessed: {error.strerror}; it is retried"
            ) from error

    def _reason(self, error: sqlite3.Error) -> str:
        with suppress(OSError):
            if not os.path.getsize(self.path):
                return EMPTY
        return f"{error}{_hint(error)}"


def _code(error: Exception) -> int:
    """Return SQLite's primary error code, without the extended bits. 0 for other errors."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _hint(error: Exception) -> str:
    """Return the remedy for the error message, "" if none is known."""
    return f"; {FREE_SPACE}" if is_disk_full(error) else HINTS.get(_code(error), "")


def _error_type(error: Exception) -> type[StoreBusy | StoreBroken]:
    """Return StoreBusy for transient errors, else StoreBroken."""
    passes = _code(error) in TRANSIENT or is_disk_full(error)
    return StoreBusy if passes else StoreBroken


def _create_file(path: Path) -> None:
    """Create an empty file with the current schema, complete as soon as it exists at `path`.

    So a file without a schema is one that lost its data. Raises OSError and sqlite3.Error.
    """
    with write_whole_file(path) as draft, closing(sqlite3.connect(draft)) as database:
        database.executescript(
            ";".join(
                [
                    "BEGIN",
                    *chain.from_iterable(MIGRATIONS),
                    f"PRAGMA user_version = {len(MIGRATIONS)}",
                    "COMMIT",
                ]
            )
        )


async def _prepare(database: aiosqlite.Connection) -> None:
    """Set the pragmas and migrate the schema.

    Raises DatabaseError or StoreBroken: the file is not a usable system.db.
    """
    await database.execute("PRAGMA busy_timeout = 10000")
    await database.execute("PRAGMA synchronous = FULL")
    async with _transaction(database):
        version = await _query_number(database, "PRAGMA user_version")
        if version > len(MIGRATIONS):
            raise StoreBroken(
                f"it was written by a newer Memrelay (schema {version}); run that one"
            )
        if version == 0 and await _query_number(database, "SELECT count(*) FROM sqlite_master"):
            raise StoreBroken(
                "it belongs to another program; move it away, then Memrelay creates a new one"
            )
        if version == 0:
            raise StoreBroken(EMPTY)
        if version < len(MIGRATIONS):
            for statement in chain.from_iterable(MIGRATIONS[version:]):
                await database.execute(statement)
            await database.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


async def _query_number(database: aiosqlite.Connection, query: str) -> int:
    ((number,),) = await database.execute_fetchall(query)
    return int(number)


@asynccontextmanager
async def _transaction(database: aiosqlite.Connection) -> AsyncIterator[None]:
    """Run the block in a transaction; a connection has one at a time.

    It is rolled back on every error, also if the task is cancelled. The statement in progress, even
    BEGIN or COMMIT, still runs then, so ROLLBACK comes last.
    """
    committed = False
    try:
        await database.execute("BEGIN IMMEDIATE")
        yield
        await database.execute("COMMIT")
        committed = True
    finally:
        if not committed:
            with suppress(
                aiosqlite.OperationalError
                # There is nothing to roll back: BEGIN failed, or COMMIT succeeded after all.
            ):
                await database.execute("ROLLBACK")

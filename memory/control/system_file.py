"""The control plane's file, `system.db`: its connection, transactions and errors."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Self

import aiosqlite
import structlog

from memrelay.memory.control import database as schema
from memrelay.memory.disk import ROOM, ROOM_OR_DISK, clear_drafts, inode_of, is_disk_full
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.memory.memory_id import stores_below

log = structlog.stdlib.get_logger(__name__)
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
    sqlite3.SQLITE_FULL: f"; {ROOM}",
    sqlite3.SQLITE_IOERR: f"; {ROOM_OR_DISK}",
    sqlite3.SQLITE_READONLY: ACCESS_HINT,
    sqlite3.SQLITE_CANTOPEN: ACCESS_HINT,
}
TRANSIENT = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


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
        stores = stores_below(self.path.parent)
        schema.create_system_file(self.path.resolve())
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
            await schema.prepare_connection(self._database)
        except (aiosqlite.DatabaseError, StoreBroken) as error:
            await self._database.close()
            raise _error_type(error)(
                f"{self.path} cannot be used: {error}{_hint(error)}"
            ) from error
        self._inode = inode_of(self.path)

    async def __aexit__(self, *_: object) -> None:
        await self._database.close()

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[aiosqlite.Connection]:
        """Yield the connection inside a transaction, which is committed at the end or rolled back
        on an error.
        """
        with self.reading() as database:
            async with self._transaction_lock, schema.transaction(database):
                yield database

    async def rewrite(self) -> None:
        """Rewrite the file without deleted data and remove drafts of killed programs.

        Only the worker calls it, so no restore runs at the same time. Raises StoreBusy.
        """
        with self.reading() as database:
            async with self._transaction_lock:
                await database.execute("VACUUM")
        clear_drafts(self.path)

    @contextmanager
    def reading(self) -> Iterator[aiosqlite.Connection]:
        """Yield the connection for one statement.

        Raises StoreBusy: another file, or none, is now at the path.
        """
        # Nobody else would read changes to this file.
        if self._inode_at_path() != self._inode:
            raise StoreBusy(
                f"{self.path} was moved or replaced while open; put it back, or restart this program"
            )
        try:
            yield self._database
        except sqlite3.OperationalError as error:
            raise StoreBusy(f"{self.path}: {self._reason(error)}; it is retried") from error
        except sqlite3.DatabaseError as error:
            if _code(error) not in DAMAGED:
                raise
            raise StoreBroken(
                f"{self.path} is damaged or unreadable: {error}; check the disk (see the system log), "
                "or stop Memrelay and restore a backup with `memrelay restore FOLDER --force`"
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
                return schema.EMPTY
        return f"{error}{_hint(error)}"


def _code(error: Exception) -> int:
    """Return SQLite's primary error code, without the extended bits. 0 for other errors."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _hint(error: Exception) -> str:
    """Return the remedy for the error message, "" if none is known."""
    return f"; {ROOM}" if is_disk_full(error) else HINTS.get(_code(error), "")


def _error_type(error: Exception) -> type[StoreBusy | StoreBroken]:
    """Return StoreBusy for transient errors, else StoreBroken."""
    passes = _code(error) in TRANSIENT or is_disk_full(error)
    return StoreBusy if passes else StoreBroken

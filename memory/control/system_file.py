"""The control plane's file, `system.db`: one connection, its transactions, and its faults in our
words."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Self

import aiosqlite
import structlog

from memrelay.memory.control import database as file
from memrelay.memory.disk import ROOM, ROOM_OR_DISK, clear_drafts, inode_of, is_disk_full
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.memory.memory_id import stores_below

log = structlog.stdlib.get_logger(__name__)
NAME = "system.db"
LOST = (
    "it knows no bundle, key or dead letter of these stores: where it was lost, stop all and `memrelay restore "
    "FOLDER --force`; else `memrelay deploy FILE --uid UID` serves what is in instances/UID"
)
DAMAGED = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
)  # for SQLite an error of reading is one too
RIGHTS = "; this user must be able to write to it, and to its folder"
HINTS = {
    sqlite3.SQLITE_FULL: f"; {ROOM}",
    sqlite3.SQLITE_IOERR: f"; {ROOM_OR_DISK}",
    sqlite3.SQLITE_READONLY: RIGHTS,
    sqlite3.SQLITE_CANTOPEN: RIGHTS,
}
PASSING = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


class SystemFile:
    """The open file. Raises StoreBusy while another program keeps it locked. Use it as an
    asynchronous context."""

    def __init__(self, root: Path) -> None:
        """`root` is the memory root."""
        self.path = root / NAME
        self._database: aiosqlite.Connection
        self._inode = 0
        self._changing = (
            asyncio.Lock()
        )  # a connection has one transaction, and several tasks use it

    async def __aenter__(self) -> Self:
        """Opens the file, or makes it. Raises StoreBroken, and StoreBusy where it is locked or
        there is no room."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self.path.exists():
                self._make()
            sqlite3.connect(
                self.path
            ).close()  # fails here, since aiosqlite's thread outlives what it cannot open
        except (OSError, sqlite3.Error) as error:
            raise _kind_of(error)(f"{self.path} cannot be opened: {error}{_hint(error)}") from error
        opening = asyncio.create_task(self._open())
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:  # its thread may not outlive the loop
            with suppress(StoreBroken, StoreBusy):
                await opening
                await self._database.close()
            raise
        return self

    def _make(self) -> None:
        """A new one is no fault, but where there are stores already it may be that the old one was
        lost."""
        stores = stores_below(self.path.parent)
        file.make(self.path.resolve())
        if stores:
            log.warning(
                "system_db_made_anew",
                file=str(self.path),
                stores=len(stores),
                remedy=LOST,
            )

    async def _open(self) -> None:
        self._database = await aiosqlite.connect(self.path, isolation_level=None)
        try:
            await file.prepare(self._database)
        except (aiosqlite.DatabaseError, StoreBroken) as error:
            await self._database.close()
            raise _kind_of(error)(f"{self.path} cannot be used: {error}{_hint(error)}") from error
        self._inode = inode_of(self.path)

    async def __aexit__(self, *_: object) -> None:
        """Closes the file."""
        await self._database.close()

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[aiosqlite.Connection]:
        """The connection inside a transaction, which is committed at the end, or undone."""
        with self.reading() as database:
            async with self._changing, file.transaction(database):
                yield database

    async def rewrite(self) -> None:
        """Makes the file anew, without what was deleted, and removes what a killed program has left
        of another. For a worker,
        beside whom nothing is restored. Raises StoreBusy.
        """
        with self.reading() as database:
            async with self._changing:
                await database.execute("VACUUM")
        clear_drafts(self.path)

    @contextmanager
    def reading(self) -> Iterator[aiosqlite.Connection]:
        """The connection, for one statement. Raises StoreBusy where another file, or none, is at
        the path by now."""
        if self._inode_now() != self._inode:  # what is kept in this one nobody else reads
            raise StoreBusy(
                f"{self.path} was taken away or replaced while it is open; put it back, or start this program "
                "again"
            )
        try:
            yield self._database
        except sqlite3.OperationalError as error:
            raise StoreBusy(f"{self.path}: {self._reason(error)}; it is tried again") from error
        except sqlite3.DatabaseError as error:
            if _code(error) not in DAMAGED:
                raise
            raise StoreBroken(
                f"{self.path} is damaged, or its disk does not give it: {error}; look at the disk (the system's "
                "log says more), or stop all and put a backup in its place with `memrelay restore FOLDER "
                "--force`"
            ) from error

    def _inode_now(self) -> int:
        try:
            return inode_of(self.path)
        except OSError as error:
            raise StoreBusy(
                f"{self.path} cannot be reached: {error.strerror}; it is tried again"
            ) from error

    def _reason(self, error: sqlite3.Error) -> str:
        with suppress(OSError):
            if not os.path.getsize(self.path):
                return file.EMPTY
        return f"{error}{_hint(error)}"


def _code(error: Exception) -> int:
    """SQLite's primary code: what its upper bits say beside it does not count here. 0 for what is
    not SQLite's."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _hint(error: Exception) -> str:
    """What to do, where that is known."""
    return f"; {ROOM}" if is_disk_full(error) else HINTS.get(_code(error), "")


def _kind_of(error: Exception) -> type[StoreBusy | StoreBroken]:
    """StoreBusy for what may pass by itself."""
    passes = _code(error) in PASSING or is_disk_full(error)
    return StoreBusy if passes else StoreBroken

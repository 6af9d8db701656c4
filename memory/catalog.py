"""The control plane, `system.db`: deployed bundles and dead letters. Low rate, opened by every process of a host."""
import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

import aiosqlite

from memory.errors import StoreBroken, StoreBusy
from memory.sqlite import system


class Deployed(NamedTuple):
    """The active bundle of a pipeline."""

    uid: str
    name: str
    hash: str
    version: int
    deployed_at: int   # Unix ms


class DeadLetter(NamedTuple):
    """A message that was given up, as it came, with the reason."""

    pipeline: str
    id: str
    swarm: str
    data: bytes
    error: str
    bundle: str
    buried_at: int   # Unix ms


class Catalog:
    """Reads and writes system.db; raises StoreBusy while another program keeps it locked. Use it as an asynchronous context."""

    def __init__(self, root: Path) -> None:
        """`root` is the memory root."""
        self._path = root / "system.db"
        self._database: aiosqlite.Connection
        self._changing = asyncio.Lock()   # a connection has one transaction, and several tasks use it

    async def __aenter__(self) -> Self:
        """Opens the file, or makes it. Raises StoreBroken."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            sqlite3.connect(self._path).close()   # fails here, since aiosqlite's thread outlives what it cannot open
        except (OSError, sqlite3.Error) as error:
            raise StoreBroken(f"{self._path} cannot be opened: {error}") from error
        opening = asyncio.create_task(self._open())
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:   # its thread may not outlive the loop
            with suppress(StoreBroken):
                await opening
                await self._database.close()
            raise
        return self

    async def _open(self) -> None:
        self._database = await aiosqlite.connect(self._path, isolation_level=None)
        try:
            await system.prepare(self._database)
        except (aiosqlite.DatabaseError, StoreBroken) as error:
            await self._database.close()
            raise StoreBroken(f"{self._path} cannot be used: {error}") from error

    async def __aexit__(self, *_: object) -> None:
        """Closes the file."""
        await self._database.close()

    async def deploy(self, uid: str, name: str, bundle_hash: str, source: bytes, now_ms: int) -> Deployed:
        """Keeps a bundle by its hash and makes it the active one of its pipeline; the same one again changes nothing."""
        async with self._transaction():
            await system.deploy(self._database, (uid, name, bundle_hash, source, now_ms))
        found = await self.find(uid)
        assert found is not None
        return found

    async def remove(self, uid: str) -> bool:
        """Takes a pipeline out of service and says whether there was one; its store, input and bundles stay."""
        async with self._transaction():
            return await system.remove(self._database, uid)

    async def active(self) -> list[Deployed]:
        """All pipelines in service, by name."""
        with self._told():
            return [Deployed._make(row) for row in await system.active(self._database)]

    async def find(self, uid_or_name: str) -> Deployed | None:
        """The pipeline of that uid, else of that name where only one has it."""
        everything = await self.active()
        named = [one for one in everything if one.name == uid_or_name]
        return next((one for one in everything if one.uid == uid_or_name), named[0] if len(named) == 1 else None)

    async def source(self, bundle_hash: str) -> bytes | None:
        """A bundle's JSON."""
        with self._told():
            return await system.source(self._database, bundle_hash)

    async def bury(self, letters: Sequence[DeadLetter]) -> None:
        """Keeps dead letters, all or none; one that is there already stays as it is."""
        async with self._transaction():
            await system.bury(self._database, letters)

    async def dead_letters(self, uid: str) -> Iterable[DeadLetter]:
        """The dead letters of a pipeline, oldest first."""
        with self._told():
            return [DeadLetter._make(row) for row in await system.dead_letters(self._database, uid)]

    async def count_dead_letters(self) -> dict[str, int]:
        """How many dead letters each pipeline has that has any."""
        with self._told():
            return {uid: int(count) for uid, count in await system.count_dead_letters(self._database)}

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        with self._told():
            async with self._changing, system.transaction(self._database):
                yield

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise StoreBusy(f"{self._path}: {error}; it is tried again") from error
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", None) not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise
            raise StoreBroken(f"{self._path} is damaged: {error}") from error

"""The control plane: deployed bundles, and beside them dead letters and keys. Low rate, opened by
every process of a host."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Self

import aiosqlite

from memrelay.memory.control.database import Row
from memrelay.memory.control.dead_letters import DeadLetters
from memrelay.memory.control.keys import Keys
from memrelay.memory.control.precondition import ANYTHING, Precondition
from memrelay.memory.control.sessions import Sessions
from memrelay.memory.control.system_file import NAME, SystemFile
from memrelay.memory.errors import NotAsExpected

# Which pipelines are in service, and the versions and bundles that they ever had.


async def deploy(database: aiosqlite.Connection, values: tuple[str, str, str, bytes, int]) -> None:
    """(uid, name, hash, source, now): the bundle by its content, the pipeline's next version, and
    the pointer to it."""
    uid, name, bundle_hash, source_, now_ms = values
    await database.execute(
        "INSERT INTO bundles VALUES (?, ?) ON CONFLICT(hash) DO NOTHING", (bundle_hash, source_)
    )
    await database.execute(
        "INSERT INTO versions SELECT ?1, 1 + coalesce(max(version), 0), ?2, ?3, ?4 FROM versions WHERE uid = ?1",
        (uid, name, bundle_hash, now_ms),
    )
    await database.execute(
        "INSERT OR REPLACE INTO pipelines SELECT uid, name, hash, version, deployed_at FROM versions WHERE uid = ? "
        "ORDER BY version DESC LIMIT 1",
        (uid,),
    )


async def remove(database: aiosqlite.Connection, uid: str) -> bool:
    """Whether there was such a pipeline."""
    return (await database.execute("DELETE FROM pipelines WHERE uid = ?", (uid,))).rowcount > 0


async def active(database: aiosqlite.Connection, uid: str | None = None) -> Iterable[Row]:
    """Rows of Deployed; of one pipeline, where a uid is given."""
    return await database.execute_fetchall(
        "SELECT uid, name, hash, version, deployed_at FROM pipelines WHERE ?1 IS NULL OR uid = ?1 ORDER BY name, uid",
        (uid,),
    )


async def versions(database: aiosqlite.Connection, uid: str) -> Iterable[Row]:
    """Rows of Deployed, the newest first."""
    return await database.execute_fetchall(
        "SELECT uid, name, hash, version, deployed_at FROM versions WHERE uid = ? ORDER BY version DESC",
        (uid,),
    )


async def source(database: aiosqlite.Connection, bundle_hash: str) -> bytes | None:
    """A bundle's JSON."""
    rows = await database.execute_fetchall(
        "SELECT source FROM bundles WHERE hash = ?", (bundle_hash,)
    )
    return next((bytes(row[0]) for row in rows), None)


class Deployed(NamedTuple):
    """A version of a pipeline: the active one, or one that was."""

    uid: str
    name: str
    hash: str
    version: int
    deployed_at: int  # Unix ms


class Swapped(NamedTuple):
    """What a deploy changed; the same on both sides where the bundle was active already."""

    before: Deployed | None  # None where the pipeline was not in service
    after: Deployed


def is_begun(root: Path) -> bool:
    """Whether anything was ever stored in a memory root; to open its catalogue begins one. Raises
    OSError."""
    try:
        (
            root / NAME
        ).stat()  # Path.exists says from Python 3.14 on that what may not be looked at is not there
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


class Catalog:
    """Reads and writes system.db; raises StoreBusy while another program keeps it locked. Use it as
    an asynchronous context."""

    def __init__(self, root: Path) -> None:
        """`root` is the memory root."""
        self._file = SystemFile(root)
        self.letters = DeadLetters(self._file)
        self.keys, self.sessions = Keys(self._file), Sessions(self._file)

    async def __aenter__(self) -> Self:
        """Opens the file, or makes it. Raises StoreBroken, and StoreBusy where it is locked or
        there is no room."""
        await self._file.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the file."""
        await self._file.__aexit__()

    async def deploy(
        self,
        uid: str,
        name: str,
        bundle_hash: str,
        source: bytes,
        now_ms: int,
        *,
        expected: Precondition = ANYTHING,
    ) -> Swapped:
        """Keeps a bundle by its hash and makes it the next version of its pipeline; the active one
        again changes nothing.

        Compared and swapped in one transaction: raises NotAsExpected, and then nothing is changed.
        """
        async with self._file.changing() as database:
            before = _first(await active(database, uid))
            _compare(uid, before, expected)
            if before is not None and before.hash == bundle_hash:
                return Swapped(before, before)
            await deploy(database, (uid, name, bundle_hash, source, now_ms))
            (after,) = await active(database, uid)
        return Swapped(before, Deployed._make(after))

    async def remove(self, uid: str, expected: Precondition = ANYTHING) -> bool:
        """Takes a pipeline out of service and says whether there was one; its store, input and
        versions stay.

        Raises NotAsExpected where another bundle is in service.
        """
        async with self._file.changing() as database:
            before = _first(await active(database, uid))
            if before is None:
                return False
            _compare(uid, before, expected)
            return await remove(database, uid)

    async def active(self) -> list[Deployed]:
        """All pipelines in service, by name."""
        with self._file.reading() as database:
            return [Deployed._make(row) for row in await active(database)]

    async def serving(self, uid: str) -> Deployed | None:
        """The active version of a pipeline; None where it is not in service."""
        with self._file.reading() as database:
            return _first(await active(database, uid))

    async def find(self, uid_or_name: str) -> Deployed | None:
        """The pipeline of that uid, else of that name where only one has it."""
        everything = await self.active()
        named = [one for one in everything if one.name == uid_or_name]
        return next(
            (one for one in everything if one.uid == uid_or_name),
            named[0] if len(named) == 1 else None,
        )

    async def source(self, bundle_hash: str) -> bytes | None:
        """A bundle's JSON."""
        with self._file.reading() as database:
            return await source(database, bundle_hash)

    async def versions(self, uid: str) -> list[Deployed]:
        """Every version that a pipeline ever had, the newest first; of one that was taken out of
        service too."""
        with self._file.reading() as database:
            return [Deployed._make(row) for row in await versions(database, uid)]


def _first(rows: Iterable[Iterable[Any]]) -> Deployed | None:
    return next((Deployed._make(row) for row in rows), None)


def _compare(uid: str, found: Deployed | None, expected: Precondition) -> None:
    if not expected.allows(found.hash if found else None):
        raise NotAsExpected(uid, found.hash if found else "")

"""The control plane's catalog: deployed pipelines with their versions, and access to keys, sessions
and dead letters.

Its rate is low, and every process opens it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from memrelay.memory.control.database import ControlRows, Row, Sql
from memrelay.memory.control.dead_letters import DeadLetters
from memrelay.memory.control.keys import Keys, Sessions
from memrelay.memory.control.opening import open_database
from memrelay.memory.control.precondition import ANYTHING, Precondition
from memrelay.memory.control.system_file import NAME
from memrelay.memory.errors import PreconditionNotMet

Subject = TypeVar("Subject", bound=ControlRows)


class Deployed(NamedTuple):
    """A version of a pipeline, active or earlier."""

    uid: str
    name: str
    hash: str
    version: int
    # Unix ms
    deployed_at: int


class DeployResult(NamedTuple):
    """The result of a deploy. Both versions are the same if the bundle was active already."""

    # None if the pipeline was not deployed before.
    before: Deployed | None
    after: Deployed


_COLUMNS = ", ".join(Deployed._fields)


def catalog_exists(root: Path, storage_url: str = "") -> bool:
    """Return whether a memory root has a catalog. Opening a catalog creates it. Raises OSError.

    A catalog in PostgreSQL counts as existing.
    """
    if storage_url:
        return True
    # From Python 3.14 on, Path.exists returns False for a file that this user may not access.
    try:
        (root / NAME).stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


class Catalog(ControlRows):
    """Reads and writes system.db in the memory root `root`, or PostgreSQL at `storage_url`. Use it
    as an async context manager.

    Opening creates the tables if needed. It raises StoreBroken, and StoreBusy if the file is
    locked, the disk is full or PostgreSQL cannot be reached. The methods raise StoreBusy as well.
    """

    def __init__(self, root: Path, storage_url: str = "") -> None:
        self.root, self._is_remote = root, bool(storage_url)
        super().__init__(open_database(root, storage_url))
        self.dead_letters = DeadLetters(self._database)
        self.keys, self.sessions = Keys(self._database), Sessions(self._database)

    def open_rows(self, subject: type[Subject]) -> Subject:
        """Return the rows of a further subject, which only some programs use."""
        return subject(self._database)

    async def __aenter__(self) -> Self:
        if self._is_remote:
            # Its disk is watched even if only PostgreSQL has something to store.
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        await self._database.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._database.__aexit__()

    async def identify(self) -> str:
        """Return a text that is the same in all programs with this control plane."""
        return await self._database.identify()

    async def measure(self) -> int:
        """Return the bytes of the database on its server; 0 for system.db."""
        return await self._database.measure()

    async def deploy(
        self,
        uid: str,
        name: str,
        bundle_hash: str,
        source: bytes,
        now_ms: int,
        *,
        expected: Precondition = ANYTHING,
    ) -> DeployResult:
        """Store a bundle by its hash and make it the next version of its pipeline.

        Deploying the active bundle again changes nothing. The check and the change are one
        transaction. Raises PreconditionNotMet, without a change.
        """
        async with self._database.changing() as database:
            before = _first(await _select_active(database, uid))
            _check_precondition(uid, before, expected)
            if before is not None and before.hash == bundle_hash:
                return DeployResult(before, before)
            await _insert_version(database, (uid, name, bundle_hash, source, now_ms))
            (after,) = await _select_active(database, uid)
        return DeployResult(before, Deployed._make(after))

    async def remove(self, uid: str, expected: Precondition = ANYTHING) -> bool:
        """Deactivate a pipeline and return whether it was active.

        Its store, input and versions stay. Raises PreconditionNotMet: another bundle is active.
        """
        async with self._database.changing() as database:
            before = _first(await _select_active(database, uid))
            if before is None:
                return False
            _check_precondition(uid, before, expected)
            await database.change("DELETE FROM pipelines WHERE uid = ?", (uid,))
            return True

    async def active(self) -> list[Deployed]:
        """Return all active pipelines, by name."""
        async with self._database.reading() as database:
            return [Deployed._make(row) for row in await _select_active(database)]

    async def serving(self, uid: str) -> Deployed | None:
        """Return the active version of a pipeline, None if it is not deployed."""
        async with self._database.reading() as database:
            return _first(await _select_active(database, uid))

    async def find(self, uid_or_name: str) -> Deployed | None:
        """Return the active pipeline with that uid, or with that name if the name is unique."""
        pipelines = await self.active()
        named = [one for one in pipelines if one.name == uid_or_name]
        return next(
            (one for one in pipelines if one.uid == uid_or_name),
            named[0] if len(named) == 1 else None,
        )

    async def source(self, bundle_hash: str) -> bytes | None:
        """Return the JSON of a bundle, None if the hash is unknown."""
        rows = await self._fetch("SELECT source FROM bundles WHERE hash = ?", (bundle_hash,))
        return next((bytes(source) for (source,) in rows), None)

    async def versions(self, uid: str) -> list[Deployed]:
        """Return every version of a pipeline, the newest first, also of a removed pipeline."""
        rows = await self._fetch(
            f"SELECT {_COLUMNS} FROM versions WHERE uid = ? ORDER BY version DESC", (uid,)
        )
        return [Deployed._make(row) for row in rows]

    async def deployed_since(self, since_ms: int, limit: int) -> list[Deployed]:
        """Return the versions of all pipelines from a time on (Unix ms), the newest first."""
        rows = await self._fetch(
            f"SELECT {_COLUMNS} FROM versions WHERE deployed_at >= ? "
            "ORDER BY deployed_at DESC LIMIT ?",
            (since_ms, limit),
        )
        return [Deployed._make(row) for row in rows]


def _first(rows: Iterable[Iterable[Any]]) -> Deployed | None:
    return next((Deployed._make(row) for row in rows), None)


def _check_precondition(uid: str, active: Deployed | None, expected: Precondition) -> None:
    if not expected.allows(active.hash if active else None):
        raise PreconditionNotMet(uid, active.hash if active else "")


async def _insert_version(database: Sql, values: tuple[str, str, str, bytes, int]) -> None:
    """Insert the bundle and the next version of its pipeline, and make that version active.

    `values` are (uid, name, hash, source, now_ms).
    """
    uid, name, bundle_hash, source_, now_ms = values
    await database.change(
        "INSERT INTO bundles(hash, source) VALUES (?, ?) ON CONFLICT(hash) DO NOTHING",
        (bundle_hash, source_),
    )
    await database.change(
        "INSERT INTO versions(uid, version, name, hash, deployed_at) "
        "SELECT ?1, 1 + coalesce(max(version), 0), ?2, ?3, ?4 FROM versions WHERE uid = ?1",
        (uid, name, bundle_hash, now_ms),
    )
    replaced = ", ".join(f"{name} = excluded.{name}" for name in Deployed._fields[1:])
    await database.change(
        f"INSERT INTO pipelines({_COLUMNS}) SELECT {_COLUMNS} FROM versions WHERE uid = ? "
        f"ORDER BY version DESC LIMIT 1 ON CONFLICT(uid) DO UPDATE SET {replaced}",
        (uid,),
    )


async def _select_active(database: Sql, uid: str | None = None) -> Iterable[Row]:
    """Return rows of Deployed: of one pipeline, or of all if `uid` is None."""
    return await database.fetch(
        f"SELECT {_COLUMNS} FROM pipelines WHERE CAST(?1 AS TEXT) IS NULL OR uid = ?1 "
        "ORDER BY name, uid",
        (uid,),
    )

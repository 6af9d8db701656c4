"""SQL of the control plane, system.db. A rollback journal, since other processes of the host open it too."""
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiosqlite

from memory.errors import StoreBroken

SCHEMA = (
    "CREATE TABLE bundles(hash TEXT PRIMARY KEY, source BLOB NOT NULL)",
    "CREATE TABLE pipelines("
    "uid TEXT PRIMARY KEY, name TEXT NOT NULL, hash TEXT NOT NULL, version INTEGER NOT NULL, deployed_at INTEGER NOT NULL)",
    "CREATE TABLE dead_letters("
    "pipeline TEXT NOT NULL, id TEXT NOT NULL, swarm TEXT NOT NULL, data BLOB NOT NULL, error TEXT NOT NULL, "
    "bundle TEXT NOT NULL, buried_at INTEGER NOT NULL, PRIMARY KEY(pipeline, id))",
)
SCHEMA_VERSION = 1

Row = Iterable[Any]


async def prepare(database: aiosqlite.Connection) -> None:
    """The pragmas and the schema; raises DatabaseError or StoreBroken where the file is none of ours."""
    await database.execute("PRAGMA busy_timeout = 10000")
    await database.execute("PRAGMA synchronous = FULL")
    async with transaction(database):
        version = await _number(database, "PRAGMA user_version")
        if version > SCHEMA_VERSION:
            raise StoreBroken(f"it was written by a newer Memrelay (schema {version}); run that one")
        if version == 0:
            if await _number(database, "SELECT count(*) FROM sqlite_master"):
                raise StoreBroken("it is another program's; move it away, a new one is made")
            for statement in SCHEMA:
                await database.execute(statement)
            await database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


async def _number(database: aiosqlite.Connection, query: str) -> int:
    ((number,),) = await database.execute_fetchall(query)
    return int(number)


@asynccontextmanager
async def transaction(database: aiosqlite.Connection) -> AsyncIterator[None]:
    """One at a time on a connection. All or nothing, even where the task is cancelled: the statement that is under way then
    still runs, BEGIN or COMMIT too, so the last word is ROLLBACK."""
    committed = False
    try:
        await database.execute("BEGIN IMMEDIATE")
        yield
        await database.execute("COMMIT")
        committed = True
    finally:
        if not committed:
            with suppress(aiosqlite.OperationalError):  # there is nothing to undo: BEGIN failed, or COMMIT ran after all
                await database.execute("ROLLBACK")


async def deploy(database: aiosqlite.Connection, values: tuple[str, str, str, bytes, int]) -> None:
    """(uid, name, hash, source, now): the bundle by its content, then the pipeline's pointer to it."""
    uid, name, bundle_hash, source_, now_ms = values
    await database.execute("INSERT INTO bundles VALUES (?, ?) ON CONFLICT(hash) DO NOTHING", (bundle_hash, source_))
    await database.execute(
        "INSERT INTO pipelines VALUES (?, ?, ?, 1, ?) ON CONFLICT(uid) DO UPDATE SET name = excluded.name, "
        "hash = excluded.hash, version = version + 1, deployed_at = excluded.deployed_at WHERE hash <> excluded.hash",
        (uid, name, bundle_hash, now_ms))


async def remove(database: aiosqlite.Connection, uid: str) -> bool:
    """Whether there was such a pipeline."""
    return (await database.execute("DELETE FROM pipelines WHERE uid = ?", (uid,))).rowcount > 0


async def active(database: aiosqlite.Connection) -> Iterable[Row]:
    """Rows of Deployed."""
    return await database.execute_fetchall("SELECT uid, name, hash, version, deployed_at FROM pipelines ORDER BY name, uid")


async def source(database: aiosqlite.Connection, bundle_hash: str) -> bytes | None:
    """A bundle's JSON."""
    rows = await database.execute_fetchall("SELECT source FROM bundles WHERE hash = ?", (bundle_hash,))
    return next((bytes(row[0]) for row in rows), None)


async def bury(database: aiosqlite.Connection, letters: Iterable[Row]) -> None:
    """Rows of DeadLetter."""
    await database.executemany(
        "INSERT INTO dead_letters VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT(pipeline, id) DO NOTHING", letters)


async def dead_letters(database: aiosqlite.Connection, uid: str) -> Iterable[Row]:
    """Rows of DeadLetter."""
    return await database.execute_fetchall("SELECT * FROM dead_letters WHERE pipeline = ? ORDER BY buried_at, rowid", (uid,))


async def count_dead_letters(database: aiosqlite.Connection) -> Iterable[Row]:
    """(pipeline, how many)."""
    return await database.execute_fetchall("SELECT pipeline, count(*) FROM dead_letters GROUP BY pipeline")

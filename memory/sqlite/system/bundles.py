"""Which pipelines are in service, and the bundles that they ever had."""
from collections.abc import Iterable

import aiosqlite

from memory.sqlite.system.file import Row


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

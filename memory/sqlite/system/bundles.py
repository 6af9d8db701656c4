"""Which pipelines are in service, and the versions and bundles that they ever had."""

from collections.abc import Iterable

import aiosqlite

from memory.sqlite.system.file import Row


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

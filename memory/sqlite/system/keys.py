"""Keys. None is ever deleted: that one was made is what closes the house."""

from collections.abc import Iterable

import aiosqlite

from memory.sqlite.system.file import Row


async def add(database: aiosqlite.Connection, key: Row) -> None:
    """A row of Key."""
    await database.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, ?)", tuple(key))


async def every(database: aiosqlite.Connection) -> Iterable[Row]:
    """Rows of Key, oldest first."""
    return await database.execute_fetchall("SELECT * FROM keys ORDER BY created_at, rowid")


async def revoke(database: aiosqlite.Connection, ident: str, now_ms: int) -> bool:
    """Whether there is such a key; one that was revoked before keeps that time."""
    update = "UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?"
    return (await database.execute(update, (now_ms, ident))).rowcount > 0

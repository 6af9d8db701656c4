"""Sessions of browsers."""

from collections.abc import Iterable

import aiosqlite

from memory.sqlite.system.file import Row


async def add(database: aiosqlite.Connection, session: Row) -> None:
    """A row of Session."""
    await database.execute("INSERT INTO sessions VALUES (?, ?, ?)", tuple(session))


async def every(database: aiosqlite.Connection) -> Iterable[Row]:
    """Rows of Session."""
    return await database.execute_fetchall("SELECT * FROM sessions")


async def remove(database: aiosqlite.Connection, digest: bytes) -> None:
    """One of them, if it is there."""
    await database.execute("DELETE FROM sessions WHERE digest = ?", (digest,))


async def thin_out(database: aiosqlite.Connection, key: str, most: int, now_ms: int) -> None:
    """Forgets those that are over, and of a key's all but the newest."""
    await database.execute("DELETE FROM sessions WHERE expires_at <= ?", (now_ms,))
    await database.execute(
        "DELETE FROM sessions WHERE key = ? AND rowid NOT IN "
        "(SELECT rowid FROM sessions WHERE key = ? ORDER BY rowid DESC LIMIT ?)",
        (key, key, most),
    )

"""Dead letters."""
from collections.abc import Iterable

import aiosqlite

from memory.sqlite.system.file import Row


async def bury(database: aiosqlite.Connection, letters: Iterable[Row]) -> None:
    """Rows of DeadLetter."""
    await database.executemany(
        "INSERT INTO dead_letters VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT(pipeline, id) DO NOTHING", letters)


async def every(database: aiosqlite.Connection, uid: str) -> Iterable[Row]:
    """Rows of DeadLetter of a pipeline."""
    return await database.execute_fetchall("SELECT * FROM dead_letters WHERE pipeline = ? ORDER BY buried_at, rowid", (uid,))


async def count(database: aiosqlite.Connection) -> Iterable[Row]:
    """(pipeline, how many)."""
    return await database.execute_fetchall("SELECT pipeline, count(*) FROM dead_letters GROUP BY pipeline")

"""Dead letters."""

import json
from collections.abc import Iterable, Sequence

import aiosqlite

from memory.sqlite.system.file import Row

WHOLE = "pipeline, id, swarm, data, error, bundle, buried_at, agent, producer_id, hop, heard, attempts, entry"
IN_SHORT = "n, pipeline, id, swarm, agent, error, bundle, attempts, buried_at, length(data)"
THESE = "pipeline = ? AND id IN (SELECT value FROM json_each(?))"


async def bury(database: aiosqlite.Connection, letters: Iterable[Row]) -> None:
    """Rows of DeadLetter. One that its entry brings again changes nothing; one that another entry
    brings has failed again."""
    await database.executemany(
        f"INSERT INTO dead_letters({WHOLE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(pipeline, id) DO UPDATE "
        "SET error = excluded.error, bundle = excluded.bundle, buried_at = excluded.buried_at, entry = excluded.entry, "
        "attempts = attempts + excluded.attempts WHERE entry <> excluded.entry",
        letters,
    )


async def find(database: aiosqlite.Connection, uid: str, ident: str) -> Iterable[Row]:
    """The row of DeadLetter, or none."""
    return await database.execute_fetchall(
        f"SELECT {WHOLE} FROM dead_letters WHERE pipeline = ? AND id = ?", (uid, ident)
    )


async def page(
    database: aiosqlite.Connection, uids: Sequence[str] | None, after: int, limit: int
) -> Iterable[Row]:
    """Rows of Listed after a place, of these pipelines; of all where `uids` is None."""
    return await database.execute_fetchall(
        f"SELECT {IN_SHORT} FROM dead_letters WHERE n > ?1 AND (?2 IS NULL OR pipeline IN (SELECT value FROM json_each(?2))) "
        "ORDER BY n LIMIT ?3",
        (after, None if uids is None else json.dumps(uids), limit),
    )


async def among(database: aiosqlite.Connection, uid: str, idents: Sequence[str]) -> Iterable[Row]:
    """(id) of those that are there."""
    return await database.execute_fetchall(
        f"SELECT id FROM dead_letters WHERE {THESE}", (uid, json.dumps(idents))
    )


async def remove(database: aiosqlite.Connection, uid: str, idents: Sequence[str]) -> Iterable[Row]:
    """(id) of those that were there."""
    return await database.execute_fetchall(
        f"DELETE FROM dead_letters WHERE {THESE} RETURNING id", (uid, json.dumps(idents))
    )


async def texts(database: aiosqlite.Connection, uid: str, after: int, limit: int) -> Iterable[Row]:
    """(n, id, data, error) of a pipeline's, after a place."""
    return await database.execute_fetchall(
        "SELECT n, id, data, error FROM dead_letters WHERE pipeline = ? AND n > ? ORDER BY n LIMIT ?",
        (uid, after, limit),
    )


async def count(database: aiosqlite.Connection) -> Iterable[Row]:
    """(pipeline, how many)."""
    return await database.execute_fetchall(
        "SELECT pipeline, count(*) FROM dead_letters GROUP BY pipeline"
    )

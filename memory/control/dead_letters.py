"""Dead letters: the messages that were given up, as they came."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import aiosqlite

from memrelay.memory.control.database import Row
from memrelay.memory.control.system_file import SystemFile

# Dead letters.

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


TOGETHER = 20  # that are looked at at once


class DeadLetter(NamedTuple):
    """A message that was given up, as it came, with the reason. Together they are all that it takes
    to run it again."""

    pipeline: str
    id: str  # of the input: its first entry's, or a continuation's
    swarm: str
    data: bytes
    error: str  # why, the last time
    bundle: str  # the hash of the version under which it failed last
    buried_at: int  # when, Unix ms
    agent: str = ""  # the alias of the one agent that it is for
    producer_id: str = ""
    hop: str = ""  # as it came, which may be no number
    heard: bool = False  # it was published on the channel already, by who said it
    attempts: int = 1  # how often it was tried
    entry: str = ""  # the entry of the input that brought it last


class Listed(NamedTuple):
    """A dead letter in a list, without what was said, which may be long."""

    place: int  # after which a next page begins; it stays the same as long as the letter is there
    pipeline: str
    id: str
    swarm: str
    agent: str
    error: str
    bundle: str
    attempts: int
    buried_at: int  # Unix ms
    size: int  # bytes of what was said


class DeadLetters:
    """Keeps them in the control plane."""

    def __init__(self, file: SystemFile) -> None:
        """`file` is open."""
        self._file = file

    async def bury(self, buried: Sequence[DeadLetter]) -> None:
        """Keeps dead letters, all or none. One that is there stays as it is if the same entry
        brings it again; brought by
        another, it has the newest reason and the attempts of both."""
        async with self._file.changing() as database:
            await bury(database, buried)

    async def find(self, uid: str, ident: str) -> DeadLetter | None:
        """One of a pipeline."""
        with self._file.reading() as database:
            rows = await find(database, uid, ident)
        return next(map(DeadLetter._make, rows), None)

    async def page(
        self, uids: Sequence[str] | None = None, *, after: int = 0, limit: int
    ) -> list[Listed]:
        """The letters of these pipelines, or of all, in the order in which they first came; those
        after a place."""
        with self._file.reading() as database:
            return list(map(Listed._make, await page(database, uids, after, limit)))

    async def among(self, uid: str, idents: Sequence[str]) -> set[str]:
        """Which of these are letters of a pipeline."""
        with self._file.reading() as database:
            return {ident for (ident,) in await among(database, uid, idents)}

    async def remove(self, uid: str, idents: Sequence[str]) -> set[str]:
        """Forgets letters of a pipeline, and says which of them there were."""
        async with self._file.changing() as database:
            return {ident for (ident,) in await remove(database, uid, idents)}

    async def erase(self, uids: Sequence[str], holds: Callable[[bytes], bool]) -> int:
        """Forgets those of these pipelines that hold something. How many there were."""
        count = 0
        for uid in uids:
            after, unwanted = 0, list[str]()
            while rows := await self._texts(uid, after):
                unwanted += [
                    ident for _, ident, data, error in rows if holds(data) or holds(error.encode())
                ]
                after = rows[-1][0]
            count += len(await self.remove(uid, unwanted)) if unwanted else 0
        return count

    async def _texts(self, uid: str, after: int) -> list[tuple[int, str, bytes, str]]:
        with self._file.reading() as database:
            return [
                (n, ident, data, error)
                for n, ident, data, error in await texts(database, uid, after, TOGETHER)
            ]

    async def rewrite(self) -> None:
        """Rewrites the control plane's file, so that nothing of what was deleted is in it. Raises
        StoreBusy."""
        await self._file.rewrite()

    async def count(self) -> dict[str, int]:
        """How many dead letters each pipeline has that has any."""
        with self._file.reading() as database:
            return {uid: int(count) for uid, count in await count(database)}

"""Sessions: a browser that has shown a key holds a token instead, of which the hash is kept."""

import secrets
from collections.abc import Iterable
from typing import NamedTuple

import aiosqlite

from memrelay.memory.control.database import Row
from memrelay.memory.control.keys import digest_of
from memrelay.memory.control.system_file import SystemFile

# Sessions of browsers.


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


MOST_OF_A_KEY = 100  # the oldest ends when another begins


class Session(NamedTuple):
    """What is kept of one."""

    digest: bytes  # of its token
    key: str  # the id of the key that was shown
    expires_at: int  # Unix ms


class Sessions:
    """Keeps them in the control plane, so that they hold for all web servers of a host, and over
    their restarts."""

    def __init__(self, file: SystemFile) -> None:
        """`file` is open."""
        self._file = file

    async def begin(self, key: str, expires_at: int, now_ms: int) -> str:
        """A new one; its token."""
        token = secrets.token_hex(32)
        async with self._file.changing() as database:
            await add(database, Session(digest_of(token), key, expires_at))
            await thin_out(database, key, MOST_OF_A_KEY, now_ms)
        return token

    async def every(self) -> list[Session]:
        """All that have not been forgotten."""
        with self._file.reading() as database:
            return [
                Session(bytes(digest), key, expires_at)
                for digest, key, expires_at in await every(database)
            ]

    async def end(self, token: str) -> None:
        """It is over, if there is such a one."""
        async with self._file.changing() as database:
            await remove(database, digest_of(token))

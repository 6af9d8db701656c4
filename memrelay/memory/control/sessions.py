"""Browser sessions: after sign-in with a key, the browser holds a token. Only the token's hash is
stored.
"""

import secrets
from typing import NamedTuple

from memrelay.memory.control.database import ControlDatabase, Sql
from memrelay.memory.control.keys import digest_of

# Maximum sessions per key. A new session ends the oldest.
MOST_OF_A_KEY = 100


class Session(NamedTuple):
    """The stored part of a session."""

    # Hash of the token.
    digest: bytes
    # Id of the key that signed in.
    key: str
    # Unix ms
    expires_at: int


_COLUMNS = ", ".join(Session._fields)


class Sessions:
    """The sessions in the control plane, shared by all web servers and kept across restarts.

    `database` is open.
    """

    def __init__(self, database: ControlDatabase) -> None:
        self._database = database

    async def begin(self, key: str, expires_at: int, now_ms: int) -> str:
        """Create a session and return its token."""
        token = secrets.token_hex(32)
        async with self._database.changing() as database:
            session = Session(digest_of(token), key, expires_at)
            await database.change(f"INSERT INTO sessions({_COLUMNS}) VALUES (?, ?, ?)", session)
            await _delete_surplus(database, key, now_ms)
        return token

    async def every(self) -> list[Session]:
        """Return all stored sessions, which may include expired ones."""
        async with self._database.reading() as database:
            rows = await database.fetch(f"SELECT {_COLUMNS} FROM sessions")
            return [Session(bytes(digest), key, expires_at) for digest, key, expires_at in rows]

    async def end(self, token: str) -> None:
        """End a session if it exists."""
        async with self._database.changing() as database:
            await database.change("DELETE FROM sessions WHERE digest = ?", (digest_of(token),))


async def _delete_surplus(database: Sql, key: str, now_ms: int) -> None:
    """Delete expired sessions, and the oldest sessions of a key above the maximum."""
    await database.change("DELETE FROM sessions WHERE expires_at <= ?", (now_ms,))
    await database.change(
        "DELETE FROM sessions WHERE key = ? AND rowid NOT IN "
        "(SELECT rowid FROM sessions WHERE key = ? ORDER BY rowid DESC LIMIT ?)",
        (key, key, MOST_OF_A_KEY),
    )

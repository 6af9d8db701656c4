"""Sessions: a browser that has shown a key holds a token instead, of which the hash is kept."""

import secrets
from typing import NamedTuple

from memory.keys import digest_of
from memory.sqlite.system import sessions
from memory.system_file import SystemFile

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
            await sessions.add(database, Session(digest_of(token), key, expires_at))
            await sessions.thin_out(database, key, MOST_OF_A_KEY, now_ms)
        return token

    async def every(self) -> list[Session]:
        """All that have not been forgotten."""
        with self._file.reading() as database:
            return [
                Session(bytes(digest), key, expires_at)
                for digest, key, expires_at in await sessions.every(database)
            ]

    async def end(self, token: str) -> None:
        """It is over, if there is such a one."""
        async with self._file.changing() as database:
            await sessions.remove(database, digest_of(token))

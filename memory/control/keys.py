"""Keys: who may do what over HTTP, and in which pipelines. A key is shown once; what is kept is the
hash of its secret."""

import re
import secrets
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple, get_args

import aiosqlite

from memrelay.memory.control.database import Row
from memrelay.memory.control.system_file import SystemFile
from memrelay.memory.operation import Access

# Keys. None is ever deleted: that one was made is what closes the house.


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


ALL = "*"  # every pipeline
SCOPES: tuple[str, ...] = ("deploy", "publish", *get_args(Access))
FORM = re.compile(
    r"mr_([0-9a-f]{12})_([0-9a-f]{64})"
)  # what a key looks like: its id and its secret


class Key(NamedTuple):
    """What is kept of a key. Times in Unix ms."""

    id: str
    name: str
    digest: bytes  # of its secret
    scopes: frozenset[str]  # of SCOPES
    pipelines: frozenset[str]  # uids, or ALL alone
    created_at: int
    expires_at: int | None  # None: never
    revoked_at: int | None  # None: it was not

    def fault(self, now_ms: int) -> str:
        """Why it opens nothing any more; "" while it is in force."""
        if self.revoked_at is not None:
            return "was revoked"
        return "has expired" if self.expires_at is not None and self.expires_at <= now_ms else ""


def digest_of(secret: str) -> bytes:
    """What is kept of a secret. It has 256 random bits, so that there is nothing to guess, and no
    slow hash is needed."""
    return sha256(secret.encode()).digest()


class Keys:
    """Keeps them in the control plane."""

    def __init__(self, file: SystemFile) -> None:
        """`file` is open."""
        self._file = file

    async def create(
        self,
        name: str,
        scopes: Iterable[str],
        pipelines: Iterable[str],
        expires_at: int | None,
        *,
        now_ms: int,
    ) -> tuple[Key, str]:
        """A new key, and what its holder sends: `mr_<id>_<secret>`, which nobody can see again."""
        secret = secrets.token_hex(32)
        key = Key(
            secrets.token_hex(6),
            name,
            digest_of(secret),
            frozenset(scopes),
            frozenset(pipelines),
            now_ms,
            expires_at,
            None,
        )
        lists = " ".join(sorted(key.scopes)), " ".join(sorted(key.pipelines))
        async with self._file.changing() as database:
            await add(database, (*key[:3], *lists, *key[5:]))
        return key, f"mr_{key.id}_{secret}"

    async def every(self) -> list[Key]:
        """All that were ever made, oldest first."""
        with self._file.reading() as database:
            return [_key(*row) for row in await every(database)]

    async def revoke(self, ident: str, now_ms: int) -> bool:
        """A key opens nothing from now on; whether there is one of that id."""
        async with self._file.changing() as database:
            return await revoke(database, ident, now_ms)


def _key(
    ident: str, name: str, digest: bytes, scopes: str, pipelines: str, *times: int | None
) -> Key:
    created_at, expires_at, revoked_at = times
    return Key(
        ident,
        name,
        bytes(digest),
        frozenset(scopes.split()),
        frozenset(pipelines.split()),
        created_at or 0,
        expires_at,
        revoked_at,
    )

"""Keys: who may do what over HTTP, and in which pipelines. A key is shown once; what is kept is the
hash of its secret."""

import re
import secrets
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple, get_args

from memory.operation import Access
from memory.sqlite.system import keys
from memory.system_file import SystemFile

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
            await keys.add(database, (*key[:3], *lists, *key[5:]))
        return key, f"mr_{key.id}_{secret}"

    async def every(self) -> list[Key]:
        """All that were ever made, oldest first."""
        with self._file.reading() as database:
            return [_key(*row) for row in await keys.every(database)]

    async def revoke(self, ident: str, now_ms: int) -> bool:
        """A key opens nothing from now on; whether there is one of that id."""
        async with self._file.changing() as database:
            return await keys.revoke(database, ident, now_ms)


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

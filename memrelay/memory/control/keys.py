"""API keys: permitted scopes over HTTP, by pipeline. A key is shown once. Only the hash of its
secret is stored.

After sign-in with a key, a browser holds the token of a session, whose hash is stored.
"""

import re
import secrets
from collections.abc import Iterable, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import NamedTuple, get_args

from memrelay.memory.control.database import ControlRows, Sql
from memrelay.memory.errors import MemoryFault
from memrelay.memory.operations import Access

# Every pipeline.
ALL = "*"
SCOPES: tuple[str, ...] = ("deploy", "publish", *get_args(Access))
# The scopes that a user may grant to a client of OAuth, and those that it gets by default.
GRANTABLE = ("search", "read", "write", "append", "delete")
DEFAULT_SCOPES = ("search", "write")
# A token of OAuth is a prefix for access or refresh, the id of its grant, and a secret.
ACCESS_PREFIX = "mra_"
TOKEN = re.compile(r"(mra|mrf)_([0-9a-f]{12})_([0-9a-f]{64})")
# A key is `mr_<id>_<secret>`.
FORM = re.compile(r"mr_([0-9a-f]{12})_([0-9a-f]{64})")

MALFORMED = (
    "the key is malformed; keys have the form mr_ID_SECRET (create one with `memrelay keys create`)"
)
UNKNOWN = "the key is unknown; `memrelay keys ls` lists all keys"


class InvalidKey(MemoryFault):
    """A text is no valid key."""


class KeysExist(MemoryFault):
    """A caller without a key may create only the first key, and another one was created before."""


class Key(NamedTuple):
    """The stored part of a key. Times are Unix ms."""

    id: str
    name: str
    # Hash of the secret.
    digest: bytes
    # Subset of SCOPES.
    scopes: frozenset[str]
    # Pipeline uids, or ALL alone.
    pipelines: frozenset[str]
    created_at: int
    # None: never.
    expires_at: int | None
    # None: not revoked.
    revoked_at: int | None
    # For a grant to an OAuth client, all "" otherwise: the id of the key whose holder gave it, the
    # id of the client, and the path of the only resource that its tokens reach.
    parent: str = ""
    client: str = ""
    resource: str = ""

    def fault(self, now_ms: int) -> str:
        """Return why the key is invalid, "" if it is valid."""
        if self.revoked_at is not None:
            return "was revoked"
        return "has expired" if self.expires_at is not None and self.expires_at <= now_ms else ""


class AccessToken(NamedTuple):
    """The stored part of an access token of OAuth. `expires_at` is Unix ms."""

    digest: bytes
    expires_at: int


class NewKey(NamedTuple):
    """The properties of a key to create, as in Key."""

    name: str
    scopes: Iterable[str]
    pipelines: Iterable[str]
    expires_at: int | None = None


class CreatedKey(NamedTuple):
    """A new key, and the text that its holder sends: `mr_<id>_<secret>`."""

    key: Key
    text: str
    # Whether no key existed before, so that HTTP requires a key from now on.
    is_first: bool


def digest_of(secret: str) -> bytes:
    """Return the hash of a secret.

    A secret has 256 random bits, so a slow hash is not needed.
    """
    return sha256(secret.encode(errors="surrogateescape")).digest()


def check_key(keys: Mapping[str, Key], text: str, now_ms: int) -> Key:
    """Return the key with this text.

    Raises InvalidKey. Only a client with the right secret learns that a key is revoked.
    """
    form = FORM.fullmatch(text)
    if form is None:
        raise InvalidKey(MALFORMED)
    key = keys.get(form[1])
    if key is None or not compare_digest(key.digest, digest_of(form[2])):
        raise InvalidKey(UNKNOWN)
    if fault := key.fault(now_ms):
        raise InvalidKey(
            f"the key {key.name!r} {fault}; create another with `memrelay keys create`"
        )
    return key


_COLUMNS = ", ".join(Key._fields)
_MARKS = ", ".join("?" * len(Key._fields))


async def insert_key(database: Sql, key: Key) -> None:
    """Store a new key, inside a transaction."""
    lists = " ".join(sorted(key.scopes)), " ".join(sorted(key.pipelines))
    await database.change(
        f"INSERT INTO keys({_COLUMNS}) VALUES ({_MARKS})", (*key[:3], *lists, *key[5:])
    )


async def revoke_key(database: Sql, ident: str, now_ms: int) -> bool:
    """Revoke a key and the grants of its holder, inside a transaction. Return whether it exists."""
    update = "UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE "
    if ident:  # "" is the parent of every key that is no grant
        await database.change(update + "parent = ?", (now_ms, ident))
    return await database.change(update + "id = ?", (now_ms, ident)) > 0


class Keys(ControlRows):
    """The keys in the control plane.

    Keys are never deleted: once one was created, HTTP requires authentication.
    """

    async def create(self, new: NewKey, *, now_ms: int, only_first: bool = False) -> CreatedKey:
        """Create a key. Its text cannot be shown again.

        Raises KeysExist: `only_first` is set, and there is a key, also a revoked one.
        """
        secret = secrets.token_hex(32)
        key = Key(
            secrets.token_hex(6),
            new.name,
            digest_of(secret),
            frozenset(new.scopes),
            frozenset(new.pipelines),
            now_ms,
            new.expires_at,
            None,
        )
        async with self._database.changing() as database:
            is_first = not list(await database.fetch("SELECT 1 FROM keys LIMIT 1"))
            if only_first and not is_first:
                raise KeysExist("another program created the first key; send a key now")
            await insert_key(database, key)
        return CreatedKey(key, f"mr_{key.id}_{secret}", is_first)

    async def every(self) -> list[Key]:
        """Return all keys, oldest first, also revoked and expired ones."""
        rows = await self._fetch(f"SELECT {_COLUMNS} FROM keys ORDER BY created_at, rowid")
        return [
            Key(
                ident,
                name,
                bytes(digest),
                frozenset(scopes.split()),
                frozenset(pipelines.split()),
                *others,
            )
            for ident, name, digest, scopes, pipelines, *others in rows
        ]

    async def revoke(self, ident: str, now_ms: int) -> bool:
        """Revoke a key with its grants and return whether it exists. A revoked key keeps its first
        time.
        """
        async with self._database.changing() as database:
            return await revoke_key(database, ident, now_ms)


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


_SESSION_COLUMNS = ", ".join(Session._fields)


class Sessions(ControlRows):
    """The sessions in the control plane, shared by all web servers and kept across restarts."""

    async def begin(self, key: str, expires_at: int, now_ms: int) -> str:
        """Create a session, end expired and surplus ones, and return its token."""
        token = secrets.token_hex(32)
        async with self._database.changing() as database:
            session = Session(digest_of(token), key, expires_at)
            await database.change(
                f"INSERT INTO sessions({_SESSION_COLUMNS}) VALUES (?, ?, ?)", session
            )
            await database.change("DELETE FROM sessions WHERE expires_at <= ?", (now_ms,))
            await database.change(
                "DELETE FROM sessions WHERE key = ? AND rowid NOT IN "
                "(SELECT rowid FROM sessions WHERE key = ? ORDER BY rowid DESC LIMIT ?)",
                (key, key, MOST_OF_A_KEY),
            )
        return token

    async def every(self) -> list[Session]:
        """Return all stored sessions, which may include expired ones."""
        rows = await self._fetch(f"SELECT {_SESSION_COLUMNS} FROM sessions")
        return [Session(bytes(digest), key, expires_at) for digest, key, expires_at in rows]

    async def end(self, token: str) -> None:
        """End a session if it exists."""
        async with self._database.changing() as database:
            await database.change("DELETE FROM sessions WHERE digest = ?", (digest_of(token),))

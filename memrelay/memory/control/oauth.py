"""OAuth in the control plane: registered clients, authorization codes, and tokens.

A grant to a client is a key with a parent, whose tokens are here. All secrets are stored as hashes.
A code works once. A refresh token works once too: its second use revokes the grant, because a thief
and the client then have the same token.
"""

import json
import re
import secrets
from collections.abc import Iterable, Sequence
from hmac import compare_digest
from typing import NamedTuple

from memrelay.memory.control.database import ControlRows, Row, Sql
from memrelay.memory.control.keys import (
    ACCESS_PREFIX,
    TOKEN,
    AccessToken,
    Key,
    digest_of,
    insert_key,
    revoke_key,
)
from memrelay.memory.errors import MemoryFault

ACCESS, REFRESH = "access", "refresh"
REFRESH_PREFIX, CODE_PREFIX, CLIENT_PREFIX = "mrf_", "mrc_", "mrd_"
CODE_MS, ACCESS_MS = 60_000, 3_600_000
CLIENT_ID = re.compile(CLIENT_PREFIX + "[0-9a-f]{32}")
# How long a used code is remembered, so that its second use revokes the tokens of the first.
USED_CODE_MS = 600_000
# Access tokens of a grant that are valid at a time, and used refresh tokens that are remembered.
MAX_ACCESS_TOKENS, MAX_USED_TOKENS = 10, 1_000
MAX_CLIENTS, UNUSED_CLIENT_MS = 1_000, 86_400_000
UNKNOWN_REFRESH = "the refresh token is unknown, or of another client"
AGAIN = "start the authorization again"


class InvalidGrant(MemoryFault):
    """A code or refresh token does not count. `revoked` is the id of the grant that this ended."""

    def __init__(self, message: str, revoked: str = "") -> None:
        super().__init__(message)
        self.revoked = revoked


class Client(NamedTuple):
    """A client: a registered one, or one with a metadata document, whose URL is its id.

    Its name is not verified.
    """

    id: str
    name: str
    redirect_uris: tuple[str, ...]


class Consent(NamedTuple):
    """What a user has allowed a client, until it exchanges its code. `expires_at` is Unix ms."""

    client: str
    name: str
    redirect_uri: str
    # BASE64URL(SHA256(verifier)), without padding.
    challenge: str
    resource: str
    # The id of the user's key.
    parent: str
    scopes: list[str]
    pipeline: str
    # The end of the grant.
    expires_at: int


class Redemption(NamedTuple):
    """What a client sends with its code. `challenge` is made of its verifier."""

    client: str
    redirect_uri: str
    challenge: str
    # The path of the resource, "" if the client names none.
    resource: str


class Renewal(NamedTuple):
    """What a client sends with its refresh token. `scopes` must be among those of the grant."""

    client: str
    # The path of the resource, "" if the client names none.
    resource: str = ""
    scopes: Sequence[str] = ()


class Issued(NamedTuple):
    """New tokens of a grant, shown only now."""

    grant: str
    access_token: str
    refresh_token: str
    lifetime_s: int
    scopes: list[str]


class OAuthRows(ControlRows):
    """The clients, codes and tokens. Times are Unix ms."""

    async def register(self, name: str, redirect_uris: Iterable[str], now_ms: int) -> Client:
        """Store a client under a new id.

        Registrations that were not used for a day end. If there are too many, the oldest unused
        one ends, or else the one that was not used for the longest time.
        """
        client = Client(CLIENT_PREFIX + secrets.token_hex(16), name, tuple(redirect_uris))
        async with self._database.changing() as database:
            await database.change(
                "DELETE FROM oauth_clients WHERE used_at IS NULL AND created_at <= ?",
                (now_ms - UNUSED_CLIENT_MS,),
            )
            await database.change(
                "DELETE FROM oauth_clients WHERE id NOT IN (SELECT id FROM oauth_clients ORDER BY "
                "CASE WHEN used_at IS NULL THEN 1 ELSE 0 END, used_at DESC, created_at DESC, id "
                "LIMIT ?)",
                (MAX_CLIENTS - 1,),
            )
            await database.change(
                "INSERT INTO oauth_clients(id, name, redirect_uris, created_at) "
                "VALUES (?, ?, ?, ?)",
                (client.id, name, json.dumps(client.redirect_uris), now_ms),
            )
        return client

    async def find_client(self, ident: str, now_ms: int) -> Client | None:
        """Return a registered client, None if there is none or its registration has ended."""
        if not CLIENT_ID.fullmatch(ident):  # PostgreSQL refuses some characters
            return None
        rows = await self._fetch(
            "SELECT name, redirect_uris FROM oauth_clients WHERE id = ? AND "
            "(used_at IS NOT NULL OR created_at > ?)",
            (ident, now_ms - UNUSED_CLIENT_MS),
        )
        return next((Client(ident, name, tuple(json.loads(uris))) for name, uris in rows), None)

    async def add_code(self, consent: Consent, now_ms: int) -> str:
        """Store a consent and return its code, which works once within 60 s."""
        code = CODE_PREFIX + secrets.token_hex(32)
        async with self._database.changing() as database:
            await database.change(
                "DELETE FROM oauth_codes WHERE expires_at <= ?", (now_ms - USED_CODE_MS,)
            )
            await database.change(
                "INSERT INTO oauth_codes(digest, consent, expires_at) VALUES (?, ?, ?)",
                (digest_of(code), json.dumps(consent), now_ms + CODE_MS),
            )
            await database.change(
                "UPDATE oauth_clients SET used_at = ? WHERE id = ?", (now_ms, consent.client)
            )
        return code

    async def redeem(self, code: str, given: Redemption, now_ms: int) -> Issued:
        """Exchange a code for the tokens of a new grant. The code is used up, also by a failure.

        Raises InvalidGrant.
        """
        # Anyone can send an invented code. It must not begin a transaction, which others wait for.
        if not await self._has_code(code):
            raise InvalidGrant(f"the code is unknown; {AGAIN}")
        digest, fault, revoked = digest_of(code), "", ""
        issued: Issued | None = None
        async with self._database.changing() as database:
            rows = await database.fetch(
                "SELECT consent, expires_at, used_at, key FROM oauth_codes WHERE digest = ?",
                (digest,),
            )
            if not rows:
                fault = "the code is unknown"
            elif rows[0][2] is not None:
                fault, revoked = "the code was used before, so its tokens are revoked", rows[0][3]
                await revoke_key(database, revoked, now_ms)
            else:
                consent = Consent(*json.loads(rows[0][0]))
                fault = _find_code_fault(consent, given, rows[0][1], now_ms)
                fault = fault or await _find_parent_fault(database, consent.parent, now_ms)
                if not fault:
                    issued = await _create_grant(database, consent, now_ms)
                await database.change(
                    "UPDATE oauth_codes SET used_at = ?, key = ? WHERE digest = ?",
                    (now_ms, issued.grant if issued else "", digest),
                )
        if issued is None:
            raise InvalidGrant(f"{fault}; {AGAIN}", revoked)
        return issued

    async def refresh(self, token: str, given: Renewal, now_ms: int) -> Issued:
        """Exchange a refresh token for new tokens.

        Raises InvalidGrant. A token that was used before revokes its grant.
        """
        if not await self._has_token(token):
            raise InvalidGrant(f"{UNKNOWN_REFRESH}; {AGAIN}")
        fault, revoked = "", ""
        issued: Issued | None = None
        async with self._database.changing() as database:
            found = await _find_token(database, token, REFRESH)
            if found is None or found.client != given.client:
                fault = UNKNOWN_REFRESH
            elif found.used_at is not None:
                fault = "the refresh token was used before, so its grant is revoked"
                revoked = found.grant
                await revoke_key(database, revoked, now_ms)
            else:
                fault = _find_refresh_fault(found, given, now_ms)
                fault = fault or await _find_parent_fault(database, found.parent, now_ms)
            if not fault and found is not None:
                await database.change(
                    "UPDATE oauth_tokens SET used_at = ? WHERE digest = ?", (now_ms, found.digest)
                )
                issued = await _issue(database, found.grant, found.scopes, found.ends_at, now_ms)
        if issued is None:
            raise InvalidGrant(f"{fault}; {AGAIN}", revoked)
        return issued

    async def revoke(self, token: str, client: str, now_ms: int) -> str:
        """Revoke the grant of an access or refresh token. Return its id, "" for an unknown token.

        Raises InvalidGrant: the token is of another client.
        """
        if not await self._has_token(token):
            return ""
        async with self._database.changing() as database:
            found = await _find_token(database, token, ACCESS, REFRESH)
            if found is None:
                return ""
            if found.client != client:
                raise InvalidGrant("the token is of another client")
            await revoke_key(database, found.grant, now_ms)
            return found.grant

    async def list_access_tokens(self) -> dict[str, list[AccessToken]]:
        """Return the access tokens by the ids of their grants. Some may have expired."""
        tokens: dict[str, list[AccessToken]] = {}
        rows = await self._fetch(
            "SELECT key, digest, expires_at FROM oauth_tokens WHERE kind = ?", (ACCESS,)
        )
        for grant, digest, expires_at in rows:
            tokens.setdefault(grant, []).append(AccessToken(bytes(digest), expires_at))
        return tokens

    async def has_access_token(self, digest: bytes, now_ms: int) -> bool:
        """Return whether there is an access token with this hash that has not expired."""
        return bool(
            await self._fetch(
                "SELECT 1 FROM oauth_tokens WHERE digest = ? AND kind = ? AND expires_at > ?",
                (digest, ACCESS, now_ms),
            )
        )

    async def _has_code(self, code: str) -> bool:
        digest = digest_of(code)
        return bool(await self._fetch("SELECT 1 FROM oauth_codes WHERE digest = ?", (digest,)))

    async def _has_token(self, text: str) -> bool:
        form = TOKEN.fullmatch(text)
        if form is None:
            return False
        sql = "SELECT 1 FROM oauth_tokens WHERE digest = ?"
        return bool(await self._fetch(sql, (digest_of(form[3]),)))


class _Token(NamedTuple):
    """A token and its grant."""

    digest: bytes
    used_at: int | None
    grant: str
    client: str
    parent: str
    resource: str
    scopes: list[str]
    ends_at: int
    revoked_at: int | None


async def _find_token(database: Sql, text: str, *kinds: str) -> _Token | None:
    form = TOKEN.fullmatch(text)
    if form is None:
        return None
    digest = digest_of(form[3])
    rows: list[Row] = await database.fetch(
        "SELECT t.digest, t.kind, t.used_at, k.id, k.client, k.parent, k.resource, k.scopes, "
        "k.expires_at, k.revoked_at FROM oauth_tokens AS t JOIN keys AS k ON k.id = t.key "
        "WHERE t.digest = ? AND t.key = ?",
        (digest, form[2]),
    )
    for stored, kind, used_at, grant, client, parent, resource, scopes, *times in rows:
        is_kind = kind in kinds and text.startswith(
            ACCESS_PREFIX if kind == ACCESS else REFRESH_PREFIX
        )
        if is_kind and compare_digest(bytes(stored), digest):
            return _Token(digest, used_at, grant, client, parent, resource, scopes.split(), *times)
    return None


def _find_code_fault(consent: Consent, given: Redemption, expires_at: int, now_ms: int) -> str:
    """Return why a code does not count for a client, "" if it does."""
    if expires_at <= now_ms:
        return "the code has expired"
    if consent.client != given.client:
        return "the code is of another client"
    if consent.redirect_uri != given.redirect_uri:
        return "redirect_uri is not that of the authorization request"
    if given.resource not in ("", consent.resource):
        return "resource is not that of the authorization request"
    if not compare_digest(consent.challenge.encode(), given.challenge.encode()):
        return "code_verifier does not fit code_challenge"
    return ""


def _find_refresh_fault(found: _Token, given: Renewal, now_ms: int) -> str:
    """Return why an unused refresh token does not count, "" if it does."""
    if found.revoked_at is not None or found.ends_at <= now_ms:
        return "the grant was revoked or has expired"
    if given.resource not in ("", found.resource):
        return "resource is not that of the grant"
    if not set(given.scopes) <= set(found.scopes):
        return f"the grant has only the scopes {' '.join(found.scopes)}"
    return ""


async def _find_parent_fault(database: Sql, parent: str, now_ms: int) -> str:
    rows = await database.fetch("SELECT revoked_at, expires_at FROM keys WHERE id = ?", (parent,))
    for revoked_at, expires_at in rows:
        if revoked_at is None and (expires_at is None or expires_at > now_ms):
            return ""
    return "the key of the user was revoked or has expired"


async def _create_grant(database: Sql, consent: Consent, now_ms: int) -> Issued:
    grant = Key(
        secrets.token_hex(6),
        consent.name,
        b"",  # no secret fits: only tokens reach it
        frozenset(consent.scopes),
        frozenset({consent.pipeline}),
        now_ms,
        consent.expires_at,
        None,
        consent.parent,
        consent.client,
        consent.resource,
    )
    await insert_key(database, grant)
    return await _issue(database, grant.id, sorted(grant.scopes), consent.expires_at, now_ms)


async def _issue(database: Sql, grant: str, scopes: list[str], ends_at: int, now_ms: int) -> Issued:
    """Store an access token and a refresh token of a grant. Drop expired and surplus tokens."""
    access, refresh = secrets.token_hex(32), secrets.token_hex(32)
    expires_at = min(now_ms + ACCESS_MS, ends_at)
    await database.change("DELETE FROM oauth_tokens WHERE expires_at <= ?", (now_ms,))
    await _drop_surplus(database, grant)
    await database.change_many(
        "INSERT INTO oauth_tokens(digest, key, kind, expires_at) VALUES (?, ?, ?, ?)",
        [
            (digest_of(access), grant, ACCESS, expires_at),
            (digest_of(refresh), grant, REFRESH, ends_at),
        ],
    )
    return Issued(
        grant,
        f"{ACCESS_PREFIX}{grant}_{access}",
        f"{REFRESH_PREFIX}{grant}_{refresh}",
        (expires_at - now_ms) // 1000,
        scopes,
    )


async def _drop_surplus(database: Sql, grant: str) -> None:
    """Drop the oldest tokens of a grant, so that a client cannot fill the control plane."""
    access = f"key = ? AND kind = '{ACCESS}'"
    used = f"key = ? AND kind = '{REFRESH}' AND used_at IS NOT NULL"
    for condition, order, limit in (
        (access, "expires_at", MAX_ACCESS_TOKENS - 1),
        (used, "used_at", MAX_USED_TOKENS),
    ):
        await database.change(
            f"DELETE FROM oauth_tokens WHERE {condition} AND digest NOT IN (SELECT digest FROM "
            f"oauth_tokens WHERE {condition} ORDER BY {order} DESC LIMIT ?)",
            (grant, grant, limit),
        )

"""Authentication of agents and services by a JWT.

The signature, the algorithm, the issuer, the audience and the times are checked for each request.
A token reaches one pipeline, and there only the operations for agents.
"""

import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import jwt
import orjson

from memrelay.memory.engine.identity import MAX_ID_CHARACTERS
from memrelay.web.auth.authorizer import Caller, TokenIdentity
from memrelay.web.auth.jwks import (
    FileKeys,
    KeySet,
    KeySetFault,
    KeySource,
    UrlKeys,
    VerificationKey,
)
from memrelay.web.server.errors import Unauthorized, Unavailable
from memrelay.web.server.options import JwtIssuer

# Seconds by which the clocks of this server and of the issuer may differ.
LEEWAY_S = 30
# Only a `sub` with this prefix is a service.
SERVICE = "service:"
SUBJECT = "sub"
# The access of each value of the claim `scope`.
SCOPES = {"read": frozenset({"search", "read"}), "write": frozenset({"write", "delete"})}
REQUIRED = ["exp", "iss", "aud"]
# Verified tokens that are remembered.
MAX_VERIFIED = 10_000
MALFORMED = "the JWT is malformed; send one that is signed by an issuer of web.jwt"
NO_KEYS = (
    "the public keys of the JWT's issuer cannot be read; run `memrelay doctor` on the server to "
    "find the reason"
)
FILE = "file:"


class _Source(NamedTuple):
    issuer: JwtIssuer
    keys: KeySource


def make_verifier(issuers: Sequence[JwtIssuer], folder: Path) -> "JwtVerifier":
    """Return a verifier for tokens of these issuers. `folder` keeps fetched key sets."""
    sources: dict[tuple[str, bool], KeySource] = {}
    for one in issuers:
        sources.setdefault((one.jwks, one.private), _make_source(one, folder))
    return JwtVerifier([_Source(one, sources[one.jwks, one.private]) for one in issuers])


def _make_source(issuer: JwtIssuer, folder: Path) -> KeySource:
    if issuer.jwks.startswith(FILE):
        return FileKeys(issuer.jwks.removeprefix(FILE))
    return UrlKeys(issuer.jwks, folder, private=issuer.private)


class _Verified(NamedTuple):
    """The caller of a token, and the keys with which it was verified."""

    caller: Caller
    source: KeySource
    keys: KeySet


class JwtVerifier:
    """Verifies JWTs and returns their callers.

    A verified token is remembered until it expires, or its issuer's keys change. `clock` returns
    Unix seconds.
    """

    def __init__(
        self,
        sources: Sequence[_Source],
        *,
        max_verified: int = MAX_VERIFIED,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sources, self._max_verified, self._clock = sources, max_verified, clock
        self._verified: dict[bytes, _Verified] = {}

    async def start(self) -> None:
        """Load the key sets and keep them current."""
        for keys in {id(one.keys): one.keys for one in self._sources}.values():
            await keys.start()

    async def stop(self) -> None:
        """End the background work."""
        for keys in {id(one.keys): one.keys for one in self._sources}.values():
            await keys.stop()

    async def authenticate(self, token: str) -> Caller:
        """Return the caller of a token.

        Raises Unauthorized. Raises Unavailable: the issuer's keys cannot be read.
        """
        if not token.isascii():
            raise Unauthorized(MALFORMED)
        digest = sha256(token.encode()).digest()
        known = self._verified.get(digest)
        if known is not None and await self._is_valid(known):
            return known.caller
        verified = await self._verify(token)
        if len(self._verified) >= self._max_verified:
            self._forget_oldest()
        self._verified[digest] = verified
        return verified.caller

    def _forget_oldest(self) -> None:
        for digest in list(islice(self._verified, (self._max_verified + 1) // 2)):
            del self._verified[digest]

    async def _is_valid(self, known: _Verified) -> bool:
        expires_at = known.caller.expires_at or 0
        return expires_at > self._clock() * 1000 and await known.source.get() is known.keys

    async def _verify(self, token: str) -> _Verified:
        header, payload = _parse_unverified(token)
        source = self._select(payload)
        algorithm = header.get("alg")
        if algorithm not in source.issuer.algorithms:
            raise Unauthorized(
                f"the JWT's algorithm is not one of {', '.join(source.issuer.algorithms)}"
            )
        keys, key = await _find_key(source.keys, header.get("kid"), algorithm)
        caller = _make_caller(source.issuer, _verify(token, key, source.issuer))
        return _Verified(caller, source.keys, keys)

    def _select(self, payload: dict[str, Any]) -> _Source:
        """Return the issuer's entry. The claims are verified afterwards. Raises Unauthorized."""
        found = [one for one in self._sources if one.issuer.issuer == payload.get("iss")]
        if not found:
            raise Unauthorized("the JWT's issuer is not one of web.jwt")
        given = payload.get("aud")
        audiences = given if isinstance(given, list) else [given]
        return next((one for one in found if one.issuer.audience in audiences), found[0])


def _parse_unverified(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the claims. Raises Unauthorized."""
    parts = token.split(".")
    if len(parts) != 3:
        raise Unauthorized(MALFORMED)
    try:
        header, payload = (orjson.loads(_decode(part)) for part in parts[:2])
    except ValueError as error:  # not base64, or not JSON
        raise Unauthorized(MALFORMED) from error
    if not isinstance(header, dict) or not isinstance(payload, dict):
        raise Unauthorized(MALFORMED)
    return header, payload


def _decode(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


async def _find_key(
    source: KeySource, kid: object, algorithm: str
) -> tuple[KeySet, VerificationKey]:
    """Return the key of a token, and its set. Raises Unauthorized and Unavailable."""
    if kid is not None and not isinstance(kid, str):
        raise Unauthorized(MALFORMED)
    try:
        keys = await source.get()
        key = keys.find(kid, algorithm)
        if key is None and kid is not None and await source.refresh():
            keys = await source.get()
            key = keys.find(kid, algorithm)
    except KeySetFault as error:
        raise Unavailable(NO_KEYS) from error
    if key is None:
        raise Unauthorized(
            "the JWT has no kid, and its issuer has several keys; name the key in the header"
            if kid is None and len(keys.keys) > 1
            else "the JWT's key is none of the issuer's keys for this algorithm"
        )
    return keys, key


def _verify(token: str, key: VerificationKey, issuer: JwtIssuer) -> dict[str, Any]:
    """Return the verified claims. Raises Unauthorized."""
    try:
        return jwt.decode(
            token,
            key.public,
            [key.algorithm],
            {"require": REQUIRED},
            audience=issuer.audience,
            issuer=issuer.issuer,
            leeway=LEEWAY_S,
        )
    except jwt.ExpiredSignatureError as error:
        raise Unauthorized("the JWT has expired; get a new one from its issuer") from error
    except jwt.PyJWTError as error:
        raise Unauthorized(f"the JWT is not valid: {error}"[:200]) from error


def _make_caller(issuer: JwtIssuer, claims: dict[str, Any]) -> Caller:
    """Return the caller with verified claims. Raises Unauthorized."""
    is_named = claims.get(issuer.agent_claim) is not None
    claim = issuer.agent_claim if is_named else SUBJECT
    name = claims.get(claim)
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_ID_CHARACTERS:
        raise Unauthorized(
            f"the JWT names no agent: its claim {issuer.agent_claim}, else sub, must be a text of "
            f"1 to {MAX_ID_CHARACTERS} characters"
        )
    is_service = name.startswith(SERVICE)
    if is_service and claim != SUBJECT:
        raise Unauthorized(f"only the claim sub can name a service, not {claim}")
    user = claims.get(issuer.user_claim)
    if not isinstance(user, str) or len(user) > MAX_ID_CHARACTERS:
        user = ""
    return Caller(
        _scopes_of(claims.get("scope")),
        frozenset({issuer.pipeline}),
        name=f"jwt:{name}",
        expires_at=(int(claims["exp"]) + LEEWAY_S) * 1000,
        token=TokenIdentity("" if is_service else name, user),
    )


def _scopes_of(claim: object) -> frozenset[str]:
    """Return the access of a claim like `read` or `read write`. An absent claim means both."""
    if claim is None:
        return frozenset.union(*SCOPES.values())
    names = claim.split() if isinstance(claim, str) else ()
    return frozenset(scope for name in names for scope in SCOPES.get(name, ()))

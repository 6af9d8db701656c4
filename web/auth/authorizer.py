"""Who asks, and whether they may: one answer for every face of HTTP. What is not allowed outright
is refused."""

import time
from collections.abc import Callable
from hmac import compare_digest
from typing import NamedTuple

from aiohttp import hdrs, web

from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.keys import ALL, FORM, SCOPES, Key, digest_of
from memrelay.memory.control.sessions import Session
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.pipelines.check import CheckedBundle
from memrelay.web.server.cached_read import CachedRead
from memrelay.web.server.errors import NotAllowed, Unauthorized, no_pipeline

COOKIE = "memrelay_session"
NO_KEY = "no key came with this request; send Authorization: Bearer mr_ID_SECRET (`memrelay keys create` makes one)"
NO_SESSION = "your session is over; log in again at /login"
NOT_A_KEY = (
    "what came is no key; a key looks like mr_ID_SECRET, and `memrelay keys create` makes one"
)


class Caller(NamedTuple):
    """Whoever asks: what they may do, and in which pipelines."""

    scopes: frozenset[str]
    pipelines: frozenset[str]  # uids, or ALL alone
    key: str = ""  # its id; "" where there is none
    name: str = ""  # of the key
    expires_at: int | None = None  # the key, Unix ms; None: never
    session: bytes = b""  # the digest of the token that a browser brought instead of its key

    @property
    def sees_all(self) -> bool:
        """They are confined to no pipelines."""
        return ALL in self.pipelines

    def sees(self, uid: str) -> bool:
        """For who does not, that pipeline does not exist."""
        return uid in self.pipelines or ALL in self.pipelines

    def check(self, scope: str, uid: str | None = None) -> None:
        """Raises NotFound for a pipeline that they do not see, and NotAllowed for what is beyond
        the key."""
        if uid is not None and not self.sees(uid):
            raise no_pipeline(uid)
        if scope not in self.scopes:
            raise NotAllowed(
                f"this needs the scope {scope}, and the key has {', '.join(sorted(self.scopes)) or 'none'}"
            )

    def check_bundle(self, bundle: CheckedBundle) -> None:
        """A bundle may be of a pipeline that they see, and name the stores of such. Raises
        NotAllowed."""
        if not self.sees(bundle.uid):
            raise NotAllowed(
                "the key is for certain pipelines only; set pipeline_uid to one of them"
            )
        for agent in bundle.agents:
            root, _, rest = agent.args.store.partition("/")
            if (
                root
                and not self.sees_all
                and not (root == "instances" and self.sees(rest.partition("/")[0]))
            ):
                raise NotAllowed(
                    f"agent {agent.agent.alias}: the key is for certain pipelines only, and this memory_id is in "
                    "none of them; begin it with instances/${pipeline_uid}/"
                )


EVERYBODY = Caller(frozenset(SCOPES), frozenset({ALL}))  # while no key was ever made
STRANGER = Caller(frozenset(), frozenset())


class Ring(NamedTuple):
    """All keys and sessions at one moment."""

    keys: dict[str, Key]
    sessions: dict[bytes, Session]

    def fault(self, caller: Caller, now_ms: int) -> str:
        """Why a caller who was let in may not stay; "" where they may."""
        if not caller.key:
            return "keys are needed from now on" if self.keys else ""
        if caller.session and not self._session(caller.session, now_ms):
            return "the session is over"
        fault = self.keys[caller.key].fault(now_ms) if caller.key in self.keys else "is gone"
        return f"the key {fault}" if fault else ""

    def _session(self, digest: bytes, now_ms: int) -> Session | None:
        found = self.sessions.get(digest)
        return found if found is not None and found.expires_at > now_ms else None

    def by_session(self, token: str, now_ms: int) -> Caller:
        """Who has that token. Raises Unauthorized."""
        digest = digest_of(token)
        session = self._session(digest, now_ms)
        key = None if session is None else self.keys.get(session.key)
        if key is None or key.fault(now_ms):
            raise Unauthorized(NO_SESSION)
        return Caller(key.scopes, key.pipelines, key.id, key.name, key.expires_at, digest)

    def by_key(self, given: str, now_ms: int) -> Caller:
        """Who has that key. Raises Unauthorized; only who knows its secret learns what became of
        it."""
        form = FORM.fullmatch(given)
        if form is None:
            raise Unauthorized(NOT_A_KEY)
        key = self.keys.get(form[1])
        if key is None or not compare_digest(key.digest, digest_of(form[2])):
            raise Unauthorized(
                "this key is not known here; `memrelay keys ls` lists those that are"
            )
        if fault := key.fault(now_ms):
            raise Unauthorized(
                f"the key {key.name!r} {fault}; `memrelay keys create` makes another"
            )
        return Caller(key.scopes, key.pipelines, key.id, key.name, key.expires_at)


class Authorizer:
    """Knows the keys, as they were a second ago at most."""

    def __init__(
        self, catalog: Catalog, *, on_loopback: bool, clock: Callable[[], float] = time.time
    ) -> None:
        """`on_loopback`: only this machine reaches the server; else nobody comes in without a key.
        `clock` gives Unix s."""
        self._catalog, self._on_loopback, self._clock = catalog, on_loopback, clock
        self._glance = CachedRead(self._read)
        self._ring = Ring({}, {})

    @property
    def now_ms(self) -> int:
        """By the clock that keys expire by."""
        return int(self._clock() * 1000)

    async def ring(self, *, anew: bool = False) -> Ring:
        """Keys and sessions. Raises StoreBusy and StoreBroken."""
        return await self._glance.look(anew=anew)

    async def _read(self) -> Ring:
        keys, sessions = await self._catalog.keys.every(), await self._catalog.sessions.every()
        self._ring = Ring(
            {key.id: key for key in keys}, {session.digest: session for session in sessions}
        )
        return self._ring

    async def caller(self, request: web.Request) -> Caller:
        """Who asks. Raises Unauthorized, StoreBusy and StoreBroken."""
        return self._caller(request, await self.ring())

    def _caller(self, request: web.Request, ring: Ring) -> Caller:
        if not ring.keys and self._on_loopback:
            return EVERYBODY
        if given := bearer_of(request):
            return ring.by_key(given, self.now_ms)
        if token := request.cookies.get(COOKIE):
            return ring.by_session(token, self.now_ms)
        raise Unauthorized(NO_KEY)

    async def caller_or_stranger(self, request: web.Request) -> Caller:
        """Who asks for what everybody may ask for; by the keys that were read last, where they
        cannot be read now."""
        try:
            ring = await self.ring()
        except (StoreBusy, StoreBroken):
            ring = self._ring
        try:
            return self._caller(request, ring)
        except Unauthorized:
            return STRANGER


def bearer_of(request: web.Request) -> str:
    """What `Authorization: Bearer ...` brings; "" for nothing."""
    scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""

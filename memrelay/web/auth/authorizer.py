"""Authentication by key or session, and authorization by scope and pipeline. Denies by default."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hmac import compare_digest
from typing import NamedTuple, Protocol

from aiohttp import hdrs, web

from memrelay.bus.streams.via import Via
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.keys import (
    ACCESS_PREFIX,
    ALL,
    GRANTABLE,
    SCOPES,
    TOKEN,
    AccessToken,
    InvalidKey,
    Key,
    Session,
    check_key,
    digest_of,
)
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.pipelines.check import CheckedAgent, CheckedBundle
from memrelay.pipelines.secret_references import SecretResolver
from memrelay.web.server.cached_read import CachedRead
from memrelay.web.server.errors import NotAllowed, Unauthorized, Unavailable, no_pipeline
from memrelay.web.server.options import OPTIONS

COOKIE = "memrelay_session"
# Some clients send a key here instead of in Authorization.
API_KEY_HEADER = "X-API-Key"
NO_KEY = (
    "the request has no key; send Authorization: Bearer mr_ID_SECRET "
    "(create one with `memrelay keys create`)"
)
NO_SESSION = "your session has ended; log in again at /login"
UNKNOWN_TOKEN = (
    "the access token is unknown, expired or revoked; refresh it, or start the authorization again"
)


class UnknownToken(Unauthorized):
    """An access token of OAuth is not among those that were read last. `digest` is its hash."""

    def __init__(self, detail: str, digest: bytes) -> None:
        super().__init__(detail)
        self.digest = digest


class TokenIdentity(NamedTuple):
    """The agent and the user that a JWT names, each "" if it names none.

    A service names no agent: it may act for every agent of its pipeline.
    """

    agent: str
    user: str


class Grant(NamedTuple):
    """What limits an access token of OAuth, besides scopes and pipelines.

    `resource` is the path below the base path that the token reaches, `/mcp` or `/mcp/UID`.
    `more_scopes` are those that the client may ask its user for: the user's key has them.
    """

    resource: str
    more_scopes: frozenset[str]

    def covers(self, path: str) -> bool:
        """Return whether the token reaches a path. A pipeline's toolsets are below its path."""
        return path == self.resource or (
            self.resource.count("/") > 1 and path.startswith(f"{self.resource}/")
        )


class Caller(NamedTuple):
    """A client's permissions.

    `pipelines` holds uids, or only ALL. `key` is "" without a key. `name` is that of the key, or
    `jwt:` and the agent or service of a JWT. `expires_at` is in Unix ms, None for never. `session`
    is the digest of a browser's session token. `token` is set for a caller with a JWT, and `grant`
    for one with an access token of OAuth, whose `key` is that of the grant.
    """

    scopes: frozenset[str]
    pipelines: frozenset[str]
    key: str = ""
    name: str = ""
    expires_at: int | None = None
    session: bytes = b""
    token: TokenIdentity | None = None
    grant: Grant | None = None

    @property
    def is_service(self) -> bool:
        """Return whether the caller may act for every agent of its pipelines."""
        return not self.agent

    @property
    def agent(self) -> str:
        """The only agent for which the caller may act, "" for a service."""
        return "" if self.token is None else self.token.agent

    @property
    def account(self) -> str:
        """The account for limits: a key or a JWT's subject, "" for a local program."""
        if self.token is not None:
            return f"{min(self.pipelines)} {self.name}"
        return f"key {self.key}" if self.key else ""

    @property
    def sees_all(self) -> bool:
        """Return whether the caller may access every pipeline."""
        return ALL in self.pipelines

    def sees(self, uid: str) -> bool:
        """Return whether the caller may access this pipeline."""
        return uid in self.pipelines or ALL in self.pipelines

    def check(self, scope: str, uid: str | None = None) -> None:
        """Check a scope and a pipeline.

        Raises NotFound: the caller may not see the pipeline. NotAllowed: the scope is missing.
        """
        self.check_any((scope,), uid)

    def check_any(self, scopes: Collection[str], uid: str | None = None) -> None:
        """Check that the caller has one of several scopes, and a pipeline. Raises as `check`."""
        if uid is not None:
            self.check_pipeline(uid)
        if self.scopes.isdisjoint(scopes):
            owned = ", ".join(sorted(self.scopes)) or "none"
            needed = " or ".join(f'"{scope}"' for scope in scopes)
            credential = "key" if self.token is None else "JWT"
            if self.grant is not None:
                credential = "access token"
            raise NotAllowed(f"this needs the scope {needed}. The {credential} has {owned}")

    def check_pipeline(self, uid: str) -> None:
        """Raise NotFound if the caller may not access this pipeline."""
        if not self.sees(uid):
            raise no_pipeline(uid)

    def check_all_pipelines(self) -> None:
        """Raise NotAllowed if the caller is limited to certain pipelines."""
        if not self.sees_all:
            raise NotAllowed(
                "this needs a key for all pipelines, and the key is limited to certain ones; use a "
                "key of `memrelay keys create NAME --scope admin --pipeline '*'`"
            )

    def check_route(self, *, is_for_agents: bool) -> None:
        """Check that a JWT reaches a route. Raises NotAllowed."""
        if self.token is not None and not is_for_agents:
            raise NotAllowed(
                "a JWT reaches only items, grants, stores.list and the memory tool; use a key"
            )

    def check_bundle(self, bundle: CheckedBundle, secrets: SecretResolver) -> None:
        """Check that the bundle's pipeline, stores and secrets belong to the caller's pipelines.

        Raises NotAllowed.
        """
        if not self.sees(bundle.uid):
            raise NotAllowed(
                "the key is limited to certain pipelines; set pipeline_uid to one of them"
            )
        for agent in bundle.agents:
            if not self._may_use_store(agent.args.store):
                raise NotAllowed(
                    f"agent {agent.agent.alias}: the key is limited to certain pipelines, and this "
                    "memory_id is in none of them; begin it with instances/${pipeline_uid}/"
                )
            references = _list_secrets(agent)
            self.check_secrets(f"agent {agent.agent.alias}", references, bundle.uid, secrets)
        for endpoint in bundle.endpoints:
            references = tuple(reference for _, reference in endpoint.references)
            self.check_secrets(f"endpoint {endpoint.name}", references, bundle.uid, secrets)

    def check_secrets(
        self, owner: str, references: Iterable[str], uid: str, secrets: SecretResolver
    ) -> None:
        """Check that a pipeline may use its references. Raises NotAllowed.

        Otherwise it could name the token of another pipeline and receive its webhooks.
        """
        if self.sees_all:
            return
        for reference in filter(None, references):
            if not secrets.may_use(uid, reference):
                raise NotAllowed(
                    f"{owner}: the key is limited to certain pipelines and may "
                    f"not use {reference[:100]}; write file:${{pipeline_uid}}/NAME, or ask the "
                    f"operator to add {uid}:NAME to secrets.env"
                )

    def _may_use_store(self, store: str) -> bool:
        root, _, rest = store.partition("/")
        if not root or self.sees_all:
            return True
        return root == "instances" and self.sees(rest.partition("/")[0])


def _list_secrets(agent: CheckedAgent) -> tuple[str, ...]:
    """Return the references of an agent's webhook and block."""
    sent = (reference for reference, _ in agent.args.sent_secrets)
    return (agent.token, agent.verify, *agent.secrets, *agent.args.secrets, *sent)


def make_via(caller: Caller, profile: str) -> Via:
    """Return the way in of a caller's message or call. A browser has the profile `console`."""
    key = caller.name if caller.token is not None else caller.key
    return Via("console" if caller.session else profile, key=key)


# The caller on loopback until the first key exists.
LOCAL_CALLER = Caller(frozenset(SCOPES), frozenset({ALL}))
ANONYMOUS = Caller(frozenset(), frozenset())


class Credentials(NamedTuple):
    """All keys and sessions at one moment, and the access tokens by the ids of their grants."""

    keys: dict[str, Key]
    sessions: dict[bytes, Session]
    tokens: Mapping[str, Sequence[AccessToken]] = {}

    def find_fault(self, caller: Caller, now_ms: int) -> str:
        """Return why an earlier caller no longer has access, or ""."""
        if caller.token is not None:
            return "the JWT has expired" if (caller.expires_at or 0) <= now_ms else ""
        if not caller.key:
            return "a key is required now" if self.keys else ""
        if caller.session and not self._find_session(caller.session, now_ms):
            return "the session has ended"
        if caller.grant is not None and (caller.expires_at or 0) <= now_ms:
            return "the access token has expired"
        fault = self._find_key_fault(caller.key, now_ms)
        return f"the key {fault}" if fault else ""

    def _find_key_fault(self, ident: str, now_ms: int) -> str:
        """Return why a key, or the user's key of a grant, is invalid; "" if it is valid."""
        key = self.keys.get(ident)
        if key is None:
            return "is gone"
        return key.fault(now_ms) or (key.parent and self._find_key_fault(key.parent, now_ms))

    def _find_session(self, digest: bytes, now_ms: int) -> Session | None:
        found = self.sessions.get(digest)
        return found if found is not None and found.expires_at > now_ms else None

    def authenticate_session(self, token: str, now_ms: int) -> Caller:
        """Return the owner of a session token. Raises Unauthorized."""
        digest = digest_of(token)
        session = self._find_session(digest, now_ms)
        key = None if session is None else self.keys.get(session.key)
        if key is None or key.fault(now_ms):
            raise Unauthorized(NO_SESSION)
        return Caller(key.scopes, key.pipelines, key.id, key.name, key.expires_at, digest)

    def authenticate_key(self, given: str, now_ms: int) -> Caller:
        """Return the owner of a key. Raises Unauthorized."""
        try:
            key = check_key(self.keys, given, now_ms)
        except InvalidKey as error:
            raise Unauthorized(str(error)) from error
        return Caller(key.scopes, key.pipelines, key.id, key.name, key.expires_at)

    def authenticate_token(self, given: str, path: str, now_ms: int) -> Caller:
        """Return the owner of an access token of OAuth for a request to `path`.

        Raises UnknownToken, and Unauthorized: it is no longer valid, or for another path.
        """
        form = TOKEN.fullmatch(given)
        if form is None:
            raise Unauthorized(UNKNOWN_TOKEN)
        digest = digest_of(form[3])
        found = [one for one in self.tokens.get(form[2], ()) if compare_digest(one.digest, digest)]
        key = self.keys.get(form[2])
        if not found or key is None:
            raise UnknownToken(UNKNOWN_TOKEN, digest)
        if found[0].expires_at <= now_ms or self._find_key_fault(key.id, now_ms):
            raise Unauthorized(UNKNOWN_TOKEN)
        more = self.keys[key.parent].scopes & frozenset(GRANTABLE) - key.scopes
        grant = Grant(key.resource, more)
        if not grant.covers(path):
            raise Unauthorized(f"the access token is for {key.resource} only")
        return Caller(key.scopes, key.pipelines, key.id, key.name, found[0].expires_at, grant=grant)


# The caller of a request with a JWT, so that each request verifies it once.
_VERIFIED = web.RequestKey("verified_caller", Caller)


class TokenVerifier(Protocol):
    """Verifies JWTs."""

    async def start(self) -> None:
        """Load the keys of the issuers and keep them current."""

    async def stop(self) -> None:
        """End the background work."""

    async def authenticate(self, token: str) -> Caller:
        """Return the caller of a JWT. Raises Unauthorized and Unavailable."""


class TokenRows(Protocol):
    """The access tokens of OAuth in the control plane."""

    async def list_access_tokens(self) -> Mapping[str, Sequence[AccessToken]]:
        """Return the tokens by the ids of their grants."""

    async def has_access_token(self, digest: bytes, now_ms: int) -> bool:
        """Return whether there is a token with this hash that has not expired."""


class Authorizer:
    """Identifies callers, from keys and sessions that are at most one second old.

    `on_loopback`: only this machine reaches the server. If false, every caller needs a key.
    `tokens` verifies JWTs, None if no issuer is configured. `oauth` has the access tokens of OAuth,
    None if it is off. `clock` returns Unix seconds.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        on_loopback: bool,
        tokens: TokenVerifier | None = None,
        oauth: TokenRows | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._catalog, self._on_loopback, self._clock = catalog, on_loopback, clock
        self._tokens, self._oauth = tokens, oauth
        self._cache = CachedRead(self._read)
        self._last_read = Credentials({}, {})

    @property
    def now_ms(self) -> int:
        """The current time of the clock that expires keys, in Unix ms."""
        return int(self._clock() * 1000)

    async def get_credentials(self, *, refresh: bool = False) -> Credentials:
        """Return keys and sessions. Raises StoreBusy and StoreBroken."""
        return await self._cache.get(refresh=refresh)

    async def _read(self) -> Credentials:
        keys, sessions = await self._catalog.keys.every(), await self._catalog.sessions.every()
        self._last_read = Credentials(
            {key.id: key for key in keys},
            {session.digest: session for session in sessions},
            await self._oauth.list_access_tokens() if self._oauth is not None else {},
        )
        return self._last_read

    def requires_key(self) -> bool:
        """Return whether callers need a key, by the last successful read."""
        return bool(self._last_read.keys) or not self._on_loopback

    async def get_caller(self, request: web.Request) -> Caller:
        """Identify the caller. Raises Unauthorized, Unavailable, StoreBusy, and StoreBroken.

        A JWT is always verified, also on loopback without keys.
        """
        verified = await self._verify_token(request)
        if verified is not None:
            return verified
        try:
            return self._identify(request, await self.get_credentials())
        except UnknownToken as unknown:
            # Another server may have issued it a moment ago. An invented token must not make this
            # server read all keys again.
            if self._oauth is None or not await self._oauth.has_access_token(
                unknown.digest, self.now_ms
            ):
                raise
            return self._identify(request, await self.get_credentials(refresh=True))

    async def _verify_token(self, request: web.Request) -> Caller | None:
        """Return the caller of a JWT, None without one. Raises Unauthorized and Unavailable."""
        if self._tokens is None:
            return None
        verified = request.get(_VERIFIED)
        # Keys have no period. A malformed JWT must not pass as a request without a credential.
        if verified is None and "." in (token := get_credential(request)):
            verified = request[_VERIFIED] = await self._tokens.authenticate(token)
        return verified

    def _identify(self, request: web.Request, credentials: Credentials) -> Caller:
        if not credentials.keys and self._on_loopback:
            return LOCAL_CALLER
        if get_bearer_token(request).startswith(ACCESS_PREFIX):
            path = request.path.removeprefix(request.app[OPTIONS].base_path)
            return credentials.authenticate_token(get_bearer_token(request), path, self.now_ms)
        if key := get_credential(request):
            return credentials.authenticate_key(key, self.now_ms)
        if token := request.cookies.get(COOKIE):
            return credentials.authenticate_session(token, self.now_ms)
        raise Unauthorized(NO_KEY)

    async def get_caller_or_anonymous(self, request: web.Request) -> Caller:
        """Identify the caller of an open route.

        If the keys cannot be read now, this uses the keys of the last successful read.
        """
        try:
            credentials = await self.get_credentials()
        except (StoreBusy, StoreBroken):
            credentials = self._last_read
        try:
            return await self._verify_token(request) or self._identify(request, credentials)
        except (Unauthorized, Unavailable):
            return ANONYMOUS


def get_credential(request: web.Request) -> str:
    """Return the key or JWT of a request, or ""."""
    return get_bearer_token(request) or request.headers.get(API_KEY_HEADER, "")


def get_bearer_token(request: web.Request) -> str:
    """Return the token of `Authorization: Bearer TOKEN`, or ""."""
    scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""

"""The options of the web server, and the issuers of JWTs in them."""

from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network

from aiohttp import web

from memrelay.bus.streams.ingress import IngressLimits
from memrelay.guarded_http.rules import PUBLIC_ONLY, OutgoingRules
from memrelay.memory.engine.retention import HISTORY_DAYS
from memrelay.memory.engine.time_zones import DEFAULT_ZONE
from memrelay.memory.seal_keys import SealKeys, make_seal_keys


@dataclass(frozen=True, slots=True)
class JwtIssuer:
    """One entry of `web.jwt`. `jwks` is `file:PATH` or an https URL."""

    issuer: str
    audience: str
    jwks: str
    # The uid of the only pipeline that its tokens reach.
    pipeline: str
    algorithms: tuple[str, ...]
    agent_claim: str
    user_claim: str
    # Whether the URL may have a private address.
    private: bool = False


@dataclass(frozen=True, slots=True)
class WebOptions:
    """The address to listen on and the server's limits. Sizes are in bytes."""

    host: str = "127.0.0.1"
    # 0 selects a free port.
    port: int = 8765
    # Accepted Host names in addition to those of loopback.
    hosts: tuple[str, ...] = ()
    # The path below which everything is served, such as `/memrelay`. "" for none.
    base_path: str = ""
    # The URL of this server as callers see it. "" if it is not configured.
    public_url: str = ""
    # Networks whose X-Forwarded headers are believed.
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    message_bytes: int = 1 << 20
    # Of the body of a webhook; 0 for message_bytes.
    webhook_bytes: int = 0
    json_depth: int = 64
    json_keys: int = 10_000
    max_wait_s: float = 60.0
    # Timeout for the answer to an operation.
    call_timeout_s: float = 10.0
    # Timeout for a request's head, and again for its body.
    read_timeout_s: float = 10.0
    connections: int = 2_000
    # The part of the connections and of the bytes of incomplete bodies that one caller may have.
    caller_share: float = 0.25
    # Requests per second and caller. 0 disables the limit.
    rate: float = 1_000.0
    burst: int = 2_000
    # Messages that may be queued for one WebSocket listener.
    listener_backlog: int = 1000
    # The bus URL as shown to people, without a password.
    bus_name: str = ""
    # File with the password of the embedded server. "" for another server.
    bus_password_file: str = ""
    ingress: IngressLimits = field(default_factory=IngressLimits)
    # Issuers whose JWTs authenticate callers.
    jwt: tuple[JwtIssuer, ...] = ()
    seal_keys: SealKeys = field(default_factory=make_seal_keys)
    # How long the workers keep deleted records and earlier states.
    history_days: float = HISTORY_DAYS
    # URL of the catalog in PostgreSQL. "" if it is system.db.
    storage_url: str = field(default="", repr=False)
    # Time zone of a deployed bundle that names none.
    timezone: str = DEFAULT_ZONE
    # Whether this process exports traces.
    has_tracing: bool = False
    # Whether it is an authorization server of OAuth for clients of MCP.
    has_oauth: bool = False
    # The rules for requests to other servers.
    outgoing: OutgoingRules = PUBLIC_ONLY


OPTIONS = web.AppKey("options", WebOptions)


def find_public_url(request: web.Request) -> str:
    """Return the URL of this server for its callers: the configured one, or that of the request."""
    options = request.app[OPTIONS]
    return options.public_url or f"{request.scheme}://{request.host}{options.base_path}"

"""What the handlers work with, made once by the service."""

from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.request import Requester
from memrelay.bus.streams.follow import Follower
from memrelay.bus.streams.ingress import IngressLimits
from memrelay.memory.control.catalog import Catalog
from memrelay.web.api.deployments import Deployments
from memrelay.web.api.directory import Directory
from memrelay.web.auth.authorizer import Authorizer
from memrelay.web.server.connection_limits import Traffic

Secret = Callable[
    [str], str
]  # a reference such as env:NAME -> what it stands for; raises LookupError


@dataclass(frozen=True, slots=True)
class WebOptions:
    """Where the server listens, and its bounds. Sizes in bytes."""

    host: str = "127.0.0.1"
    port: int = 8765  # 0: any that is free
    hosts: tuple[str, ...] = ()  # names by which it may be called, beside those of loopback
    message_bytes: int = 1 << 20
    json_depth: int = 64
    json_keys: int = 10_000
    max_wait_s: float = 60.0
    call_timeout_s: float = 10.0  # for the answer to an operation
    read_timeout_s: float = 10.0  # for a request's head, and for its body
    connections: int = 2_000
    rate: float = 1_000.0  # requests a second of one caller; 0: as many as come
    burst: int = 2_000  # of them at once
    listener_backlog: int = 1000  # messages that a live listener may be behind
    bus_name: str = ""  # the server's address as a person would type it, without a password
    ingress: IngressLimits = field(default_factory=IngressLimits)


@dataclass(frozen=True, slots=True)
class Services:
    """The parts."""

    options: WebOptions
    catalog: Catalog
    directory: Directory
    deployments: Deployments
    requester: Requester
    line: ReconnectingConnection
    follower: Follower
    traffic: Traffic
    secret: Secret
    authoriser: Authorizer


PARTS = web.AppKey("parts", Services)


def services_of(request: web.Request) -> Services:
    """The parts of the application that a request came to."""
    return request.app[PARTS]

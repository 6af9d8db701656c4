"""What the handlers of OAuth share."""

from dataclasses import dataclass, field

from aiohttp import web

from memrelay.memory.control.oauth import OAuthRows
from memrelay.web.oauth.clients import Clients
from memrelay.web.server.rate_limit import TokenBuckets

REGISTRATIONS_A_MINUTE = 10


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """The authorization server. `issuer` is `web.public_url`."""

    issuer: str
    rows: OAuthRows
    clients: Clients
    registrations: TokenBuckets = field(
        default_factory=lambda: TokenBuckets(REGISTRATIONS_A_MINUTE / 60, REGISTRATIONS_A_MINUTE)
    )


AUTHORIZATION_SERVER = web.AppKey("authorization_server", AuthorizationServer)


def get_server(request: web.Request) -> AuthorizationServer:
    """Return the authorization server of the application."""
    return request.app[AUTHORIZATION_SERVER]

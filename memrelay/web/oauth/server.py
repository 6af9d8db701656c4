"""Adds the authorization server to the application."""

from aiohttp import web

from memrelay.logs import get_logger
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.oauth import OAuthRows
from memrelay.web.oauth import consent, endpoints
from memrelay.web.oauth.authorization_server import AUTHORIZATION_SERVER, AuthorizationServer
from memrelay.web.oauth.clients import Clients
from memrelay.web.oauth.metadata import register_metadata
from memrelay.web.server.options import OPTIONS
from memrelay.web.services import SERVICES

__all__ = ["open_rows", "register", "register_metadata"]
log = get_logger(__name__)


def open_rows(catalog: Catalog) -> OAuthRows:
    """Return the clients, codes and tokens in the control plane."""
    return catalog.open_rows(OAuthRows)


def register(app: web.Application) -> None:
    """Add the pages and endpoints, which clients find in the metadata and not in OpenAPI."""
    options, rows = app[OPTIONS], open_rows(app[SERVICES].catalog)
    clients = Clients(rows, options.outgoing)
    app[AUTHORIZATION_SERVER] = AuthorizationServer(options.public_url, rows, clients)
    app.add_routes((*consent.routes, *endpoints.routes))
    log.info("oauth_ready", issuer=options.public_url)

"""The web application without its services: enough for its routes and its OpenAPI document."""

from pathlib import Path

from aiohttp import web

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.request import Requester
from memrelay.bus.streams.channels import Channels
from memrelay.bus.streams.follow import Follower
from memrelay.memory.control.catalog import Catalog
from memrelay.pipelines.secret_references import SecretResolver
from memrelay.web.api.deployments import Deployments
from memrelay.web.api.directory import Directory
from memrelay.web.app import make_app
from memrelay.web.auth.authorizer import Authorizer
from memrelay.web.server.connection_limits import Traffic
from memrelay.web.server.options import WebOptions
from memrelay.web.services import Services
from memrelay.web.webhooks.requests import WebhookRequests


def app_for(root: Path) -> web.Application:
    """Return an application of real parts; none of them is opened."""
    address, catalog = Address(path=str(root / "nobody.sock")), Catalog(root)
    line, secrets = ReconnectingConnection(address), SecretResolver(root, {})
    return make_app(
        Services(
            WebOptions(rate=0, max_wait_s=60),
            catalog,
            Directory(catalog),
            Deployments(catalog, line, secrets),
            Requester(address),
            line,
            Follower(address),
            Channels(address),
            Traffic(),
            secrets,
            Authorizer(catalog, on_loopback=True),
            WebhookRequests(line, catalog.dead_letters),
        )
    )

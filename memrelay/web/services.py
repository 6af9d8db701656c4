"""The dependencies of the request handlers, created once at startup."""

from dataclasses import dataclass, field

from aiohttp import web

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.request import Requester
from memrelay.bus.streams.channels import Channels
from memrelay.bus.streams.follow import Follower
from memrelay.memory.control.catalog import Catalog
from memrelay.pipelines.secret_references import SecretResolver
from memrelay.web.api.deployments import BundleChecks, Deployments
from memrelay.web.api.directory import Directory
from memrelay.web.auth.authorizer import Authorizer
from memrelay.web.server.connection_limits import Traffic
from memrelay.web.server.options import WebOptions
from memrelay.web.webhooks.requests import WebhookRequests
from memrelay.web.webhooks.sns import SnsClient


@dataclass(frozen=True, slots=True)
class Services:
    """The dependencies of the request handlers."""

    options: WebOptions
    catalog: Catalog
    directory: Directory
    deployments: Deployments
    requester: Requester
    line: ReconnectingConnection
    follower: Follower
    channels: Channels
    traffic: Traffic
    secrets: SecretResolver
    authorizer: Authorizer
    webhook_requests: WebhookRequests
    checks: BundleChecks = field(default_factory=BundleChecks)
    sns: SnsClient = field(default_factory=SnsClient)


SERVICES = web.AppKey("services", Services)


def get_services(request: web.Request) -> Services:
    """Return the services of the request's application."""
    return request.app[SERVICES]

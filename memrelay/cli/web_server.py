"""Create a web server from the settings.

Separate from services, because a worker must not import aiohttp.
"""

from importlib.util import find_spec
from urllib.parse import urlsplit

from memrelay.bus.client.url import Address
from memrelay.bus.streams.ingress import IngressLimits
from memrelay.cli.composition import (
    bus_name,
    bus_password_file,
    make_outgoing_rules,
    make_seal_keys,
    make_secrets,
)
from memrelay.cli.settings import Settings
from memrelay.cli.time_zone import find_default_zone
from memrelay.cli.tracing import start_tracing
from memrelay.logs import get_logger
from memrelay.web.app import WebServer, is_loopback
from memrelay.web.mcp.tool import SDK
from memrelay.web.server.options import JwtIssuer, WebOptions

log = get_logger(__name__)


def serves_oauth(public_url: str) -> bool:
    """Return whether clients of MCP may connect by OAuth.

    They need a public URL, and its metadata and codes must not travel in clear text.
    """
    parts = urlsplit(public_url)
    if not public_url or find_spec(SDK) is None:
        return False
    if parts.scheme == "https" or is_loopback(parts.hostname or ""):
        return True
    log.warning("oauth_off", reason="web.public_url is not https", public_url=public_url)
    return False


def make_web(settings: Settings, address: Address) -> WebServer:
    web = settings.web
    options = WebOptions(
        host=web.host,
        port=web.port,
        hosts=web.hosts,
        base_path=web.base_path,
        public_url=web.public_url,
        trusted_proxies=web.trusted_proxies,
        message_bytes=settings.bus.max_message_bytes,
        webhook_bytes=web.webhook_bytes,
        json_depth=web.max_json_depth,
        json_keys=web.max_json_keys,
        max_wait_s=web.max_wait_s,
        call_timeout_s=web.call_timeout_s,
        read_timeout_s=web.read_timeout_s,
        connections=web.max_connections,
        caller_share=web.caller_share,
        rate=web.rate,
        burst=web.burst,
        listener_backlog=web.listener_backlog,
        bus_name=bus_name(settings),
        bus_password_file=bus_password_file(settings),
        ingress=IngressLimits(
            backlog=settings.bus.max_backlog, backlog_bytes=settings.bus.max_backlog_bytes
        ),
        jwt=tuple(JwtIssuer(**issuer.model_dump()) for issuer in web.jwt),
        seal_keys=make_seal_keys(settings),
        history_days=settings.worker.history_days,
        storage_url=settings.storage.url,
        timezone=find_default_zone(settings),
        has_tracing=start_tracing(),
        has_oauth=serves_oauth(web.public_url),
        outgoing=make_outgoing_rules(settings, address),
    )
    return WebServer(address, settings.memory.root, options, make_secrets(settings))

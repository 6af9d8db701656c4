"""The web server: its application, made of all parts, and its lifecycle."""

import asyncio
import importlib
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from errno import EADDRINUSE
from functools import partial
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from memrelay.bus.client.primary_watch import watch_primary
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.request import Requester
from memrelay.bus.streams.channels import Channels
from memrelay.bus.streams.follow import Follower
from memrelay.installation import install_extra
from memrelay.logs import get_logger
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.errors import MemoryFault
from memrelay.pipelines.secret_references import SecretResolver
from memrelay.web.api import (
    blocks,
    dead_letters,
    figures,
    health,
    keys,
    messages,
    operations,
    pipeline_secrets,
    pipelines,
    tries,
    webhook_requests,
    webhooks,
)
from memrelay.web.api.deployments import Deployments
from memrelay.web.api.directory import Directory
from memrelay.web.api.listener import LISTENERS, close_listeners
from memrelay.web.api.status import read_status
from memrelay.web.api.try_process import TRIES, Tries, close_tries
from memrelay.web.auth.access import identify_caller, refuse_undeclared
from memrelay.web.auth.authorizer import Authorizer, TokenRows, TokenVerifier
from memrelay.web.auth.revocation import OPEN_REQUESTS, watch_callers
from memrelay.web.console import frame, login, pages
from memrelay.web.console.activity import ACTIVITIES, GRAPHS
from memrelay.web.console.frame import (
    PAGES,
    TEMPLATES,
    index_pages,
    make_templates,
    show_missing_page,
)
from memrelay.web.console.pages import home
from memrelay.web.console.shared_reads import STATES, STATUS, PipelineStates
from memrelay.web.figures.reading import FIGURES, Figures
from memrelay.web.figures.recorder import Recorder
from memrelay.web.mcp.change_reader import Bus, ChangeReaders
from memrelay.web.mcp.transports import routes as mcp
from memrelay.web.mcp.transports.bridge import EXCHANGES, end_exchanges
from memrelay.web.mcp.transports.routes import APPLICATIONS, LazyApplications, close_applications
from memrelay.web.models import register_models
from memrelay.web.openapi import pages as documents
from memrelay.web.openapi.document import build_document
from memrelay.web.openapi.reference import read_reference
from memrelay.web.server.browser_guard import (
    add_security_headers,
    refuse_foreign_browsers,
)
from memrelay.web.server.cached_read import CachedRead
from memrelay.web.server.connection_limits import (
    BUSY,
    TRAFFIC,
    ConnectionLimits,
    Traffic,
    get_connection,
)
from memrelay.web.server.error_dialects import DIALECTS, convert_errors, list_dialects
from memrelay.web.server.errors import (
    ProblemRequestHandler,
    add_request_id,
    explain_failed_expectation,
    handle_errors,
    malformed_request_log,
)
from memrelay.web.server.forwarded import TrustedProxies, read_forwarded
from memrelay.web.server.options import OPTIONS, WebOptions
from memrelay.web.server.rate_limit import limit_rate
from memrelay.web.services import SERVICES, Services
from memrelay.web.trace import search_route, trace
from memrelay.web.webhooks.requests import WebhookRequests

log = get_logger(__name__)
ACCESS_WITH_KEYS = "a key is required"
ACCESS_WITHOUT_KEYS = "all programs on this machine, over loopback only: no key was ever made"
# How long requests may run on after `stop`.
SHUTDOWN_S = 5.0
# How long an idle connection stays open. Proxies must give up first, so this is long.
KEEPALIVE_S = 75.0
# How long the rest of a rejected body is read, so that its sender can read the response.
LINGER_S = 2.0
BACKLOG = 1024
# The module of the middleware that records spans.
TRACING = "memrelay.web.server.tracing"
# The module with the authorization server of OAuth.
OAUTH = "memrelay.web.oauth.server"
# The folder in the memory root with the last good key sets of JWT issuers.
JWKS_FOLDER = "jwks"
# The faces of models that have routes below /v1. A model can be removed with its faces.
MODEL_ROUTES = ("memrelay.web.api.replays",)
ROUTE_MODULES = (
    health,
    figures,
    pipelines,
    blocks,
    tries,
    pipeline_secrets,
    messages,
    webhooks,
    webhook_requests,
    dead_letters,
    search_route,
    trace,
    keys,
    frame,
    login,
    documents,
    mcp,
    *(importlib.import_module(name) for name in MODEL_ROUTES if find_spec(name) is not None),
)
# The shortest body worth compressing.
MIN_COMPRESSED_BYTES = 1024
COMPRESSED_TYPES = frozenset(
    {
        "application/json",
        "application/problem+json",
        "text/html",
        "text/css",
        "text/javascript",
        "text/plain",
        "image/svg+xml",
    }
)
# An Accept-Encoding item that allows gzip: its weight is absent or above 0.
ACCEPTS_GZIP = re.compile(r"(?:^|[,\s])gzip\s*(?:,|$|;\s*q=(?:1|0?\.0*[1-9]))", re.I)


class NoPyJwt(MemoryFault):
    """An issuer is configured, but PyJWT is not installed."""


class CannotListen(OSError):
    """The server cannot listen on the address. The text states the fix."""


class WebServer:
    """Serves HTTP. It starts without the bus and survives the loss of the bus.

    `secrets` resolves the references in bundles. `url` is set once `ready` is.
    """

    def __init__(
        self, address: Address, memory_root: Path, options: WebOptions, secrets: SecretResolver
    ) -> None:
        self._address, self._root = address, memory_root
        self._options, self._secrets = options, secrets
        self._stopping = asyncio.Event()
        self.ready = asyncio.Event()
        self.url = ""

    def stop(self) -> None:
        """Stop accepting requests and let `run` return."""
        self._stopping.set()

    async def run(self) -> None:
        """Serve until `stop`. Raises CannotListen, NoPyJwt and StoreBroken."""
        async with AsyncExitStack() as stack:
            services = await self._make_services(stack)
            has_keys = bool((await services.authorizer.get_credentials()).keys)
            limits = ConnectionLimits(
                await self._make_protocol(stack, services),
                self._options.connections,
                self._options.read_timeout_s,
                services.traffic,
                share=self._options.caller_share,
                has_share=partial(has_share, services),
            )
            stack.callback((await self._listen(limits, has_keys)).close)
            stack.callback(asyncio.create_task(limits.sweep()).cancel)
            stack.callback(limits.close)
            self.ready.set()
            access = ACCESS_WITH_KEYS if has_keys else ACCESS_WITHOUT_KEYS
            log.info("web_ready", url=self.url, access=access)
            await self._stopping.wait()
        self.ready.clear()

    async def _make_services(self, stack: AsyncExitStack) -> Services:
        catalog = await stack.enter_async_context(Catalog(self._root, self._options.storage_url))
        await stack.enter_async_context(watch_primary(self._address))
        line = await stack.enter_async_context(ReconnectingConnection(self._address))
        requests = WebhookRequests(line, catalog.dead_letters)
        stack.push_async_callback(requests.close)
        return Services(
            self._options,
            catalog,
            Directory(catalog),
            Deployments(catalog, line, self._secrets),
            requester=await stack.enter_async_context(self._make_requester()),
            line=line,
            follower=await stack.enter_async_context(Follower(self._address)),
            channels=await stack.enter_async_context(Channels(self._address)),
            traffic=Traffic(),
            secrets=self._secrets,
            authorizer=Authorizer(
                catalog,
                on_loopback=is_loopback(self._options.host),
                tokens=await self._start_verifier(stack),
                oauth=self._find_tokens(catalog),
            ),
            webhook_requests=requests,
        )

    def _find_tokens(self, catalog: Catalog) -> TokenRows | None:
        """Return the tokens of OAuth, None if it is off."""
        if not self._options.has_oauth:
            return None
        rows: TokenRows = importlib.import_module(OAUTH).open_rows(catalog)
        return rows

    def _make_requester(self) -> Requester:
        """Return the requester. With tracing, its entries continue the traces of requests."""
        cls = Requester
        if self._options.has_tracing:
            cls = importlib.import_module("memrelay.tracing.requester").TracedRequester
        return cls(self._address, self._options.ingress)

    async def _start_verifier(self, stack: AsyncExitStack) -> TokenVerifier | None:
        """Return the verifier of JWTs, if an issuer is configured. Raises NoPyJwt."""
        if not self._options.jwt:
            return None
        try:  # the verifier and PyJWT are loaded only if they are needed
            module = importlib.import_module("memrelay.web.auth.jwt_callers")
        except ModuleNotFoundError as error:
            if error.name not in ("jwt", "cryptography"):
                raise
            raise NoPyJwt(
                f"web.jwt needs PyJWT: {install_extra('jwt')}, or remove the setting"
            ) from error
        verifier: TokenVerifier = module.make_verifier(self._options.jwt, self._root / JWKS_FOLDER)
        await verifier.start()
        stack.push_async_callback(verifier.stop)
        return verifier

    async def _make_protocol(
        self, stack: AsyncExitStack, services: Services
    ) -> "partial[ProblemRequestHandler]":
        """Start the application and return the factory of aiohttp's protocols."""
        runner = web.AppRunner(make_app(services), access_log=None, shutdown_timeout=SHUTDOWN_S)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        assert runner.server is not None
        return partial(
            ProblemRequestHandler,
            runner.server,
            loop=asyncio.get_running_loop(),
            logger=malformed_request_log,
            access_log=None,  # type: ignore[arg-type]  # disabled, as for AppRunner
            keepalive_timeout=KEEPALIVE_S,
            lingering_time=LINGER_S,
            auto_decompress=False,
        )

    async def _listen(self, limits: ConnectionLimits, has_keys: bool) -> asyncio.Server:
        host, port = self._options.host, self._options.port
        if not has_keys and (not is_loopback(host) or self._options.trusted_proxies):
            setting = "web.trusted_proxies is set" if is_loopback(host) else f"web.host is {host}"
            raise CannotListen(
                f"{setting}, but no key was made yet, and without keys only programs on this "
                "machine are served. Create one first: "
                "memrelay keys create NAME --scope SCOPE --pipeline UID"
            )
        try:
            server = await asyncio.get_running_loop().create_server(
                limits, host, port, backlog=BACKLOG
            )
        except OSError as error:
            raise CannotListen(
                f"cannot listen on {host}:{port} ({error.strerror}); {_listen_fix(error)}"
            ) from error
        bound_host, bound_port = server.sockets[0].getsockname()[:2]
        url_host = f"[{bound_host}]" if ":" in bound_host else bound_host
        self.url = f"http://{url_host}:{bound_port}{self._options.base_path}"
        return server


def _listen_fix(error: OSError) -> str:
    if error.errno == EADDRINUSE:
        return "is another server running? Set web.port or MEMRELAY_WEB__PORT to a free port"
    return (
        "set web.host or MEMRELAY_WEB__HOST to an address of this machine, and web.port to a "
        "free port"
    )


def make_app(services: Services) -> web.Application:
    """Create the application."""
    options = services.options
    app = web.Application(
        middlewares=_middlewares(services, options), client_max_size=options.message_bytes
    )
    app[SERVICES], app[OPTIONS], app[TRAFFIC] = services, options, services.traffic
    app[LISTENERS], app[OPEN_REQUESTS] = set(), {}
    app[GRAPHS], app[ACTIVITIES], app[TRIES] = {}, {}, Tries()
    app[home.READ] = {}
    app[EXCHANGES], app[APPLICATIONS] = set(), LazyApplications()
    app[mcp.READERS] = ChangeReaders(
        Bus(services.requester, services.channels, services.options.call_timeout_s)
    )
    app[STATUS] = CachedRead(partial(read_status, services.catalog, services.line))
    recorder = Recorder(services.catalog.root, partial(read_recorded, app))
    app[FIGURES] = Figures(services.catalog.root, services.catalog, recorder)
    app[TEMPLATES] = make_templates(options.base_path)
    app[STATES] = PipelineStates(services.line, services.catalog)
    app[PAGES] = index_pages([*pages.ALL, documents.PAGE])
    app.add_routes(operations.make_routes())
    for routes in (*(module.routes for module in ROUTE_MODULES), *pages.ROUTES):
        app.add_routes(routes)
    register_models(app)
    app[DIALECTS] = list_dialects(app)
    app[documents.DOCUMENT] = build_document(app)
    server = options.public_url or options.base_path
    if server:
        app[documents.DOCUMENT] |= {"servers": [{"url": server}]}
    app[documents.REFERENCE] = read_reference(app[documents.DOCUMENT])
    oauth = importlib.import_module(OAUTH) if options.has_oauth else None
    if oauth is not None:
        oauth.register(app)
    if options.base_path:
        move_below(app, options.base_path)
    if oauth is not None:
        oauth.register_metadata(app)
    app.cleanup_ctx.extend((watch_callers, record_figures))
    app.on_response_prepare.extend(
        (add_request_id, add_security_headers, explain_failed_expectation)
    )
    app.on_shutdown.extend((close_listeners, mcp.end_streams, end_exchanges))
    app.on_cleanup.extend((close_applications, close_tries))
    return app


async def read_recorded(app: web.Application) -> dict[str, Any]:
    """Return the status to record."""
    # Only this process knows them: of several web servers, the one that records.
    refused = app[SERVICES].webhook_requests.count_refused()
    return await app[STATUS].get() | {"refused_webhooks": refused}


async def record_figures(app: web.Application) -> AsyncIterator[None]:
    """Record the figures while the application runs."""
    running = asyncio.create_task(app[FIGURES].recorder.run())
    yield
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def move_below(app: web.Application, base_path: str) -> None:
    """Move all routes below a path. The probes remain at the root too."""
    router = app.router
    for resource in list(router.resources()):
        router.unindex_resource(resource)
        resource.add_prefix(base_path)
        router.index_resource(resource)
    router.add_get(base_path, frame.show_overview)
    router.add_get("/live", health.live)
    router.add_get("/ready", health.ready)
    router.add_get("/healthz", health.healthz)


def has_share(services: Services, address: str) -> bool:
    """Return whether an address has a share of the connections.

    Without keys, all local programs share an address. A proxy sends the requests of many callers.
    """
    proxies = TrustedProxies(services.options.trusted_proxies)
    return services.authorizer.requires_key() and address not in proxies


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that listens on `host`."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _middlewares(services: Services, options: WebOptions) -> list[Middleware]:
    """Return the middlewares, outermost first."""
    proxies = TrustedProxies(options.trusted_proxies)
    tracing = [importlib.import_module(TRACING).trace_requests] if options.has_tracing else []
    rate_limit = [limit_rate(options.rate, options.burst, identify_caller)] if options.rate else []
    return [
        *tracing,
        _count_answers(services.traffic),
        compress,
        *([read_forwarded(proxies)] if options.trusted_proxies else []),
        convert_errors,
        handle_errors,
        *rate_limit,
        refuse_foreign_browsers(options, services.authorizer.requires_key),
        refuse_undeclared,
        show_missing_page,
    ]


def _count_answers(traffic: Traffic) -> Middleware:
    """Return a middleware that counts responses and marks the connection as busy."""
    answers = traffic.answers

    @web.middleware
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = get_connection(request)
        if connection is not None:
            connection.due = BUSY
        try:
            response = await handler(request)
        finally:
            if connection is not None:
                connection.due, connection.has_served = None, True
        answers[response.status] += 1
        return response

    return count


@web.middleware
async def compress(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Compress long text responses with gzip. Request bodies are never decompressed."""
    response = await handler(request)
    if not isinstance(response, web.Response) or response.prepared:
        return response
    body = response.body
    is_long = isinstance(body, bytes) and len(body) >= MIN_COMPRESSED_BYTES
    if is_long and response.content_type in COMPRESSED_TYPES:
        varies = response.headers.get(hdrs.VARY)
        response.headers[hdrs.VARY] = ", ".join(filter(None, (varies, hdrs.ACCEPT_ENCODING)))
        if ACCEPTS_GZIP.search(request.headers.get(hdrs.ACCEPT_ENCODING, "")):
            response.enable_compression(web.ContentCoding.gzip)
    return response

"""The web server's lifecycle: connect, listen, and shut down in order."""

import asyncio
from contextlib import AsyncExitStack
from errno import EADDRINUSE
from functools import partial
from pathlib import Path

import structlog
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
from memrelay.web.auth.authorizer import Authorizer, TokenVerifier
from memrelay.web.auth.jwt_issuers import load_verifier
from memrelay.web.server.app import is_loopback, make_app
from memrelay.web.server.connection_limits import ConnectionLimits, Traffic
from memrelay.web.server.errors import ProblemRequestHandler, malformed_request_log
from memrelay.web.server.services import Services, WebOptions

log = structlog.stdlib.get_logger(__name__)
ACCESS_WITH_KEYS = "a key is required"
ACCESS_WITHOUT_KEYS = "all programs on this machine, over loopback only: no key was ever made"
# How long requests may run on after `stop`.
SHUTDOWN_S = 5.0
# How long an idle connection stays open. Proxies must give up first, so this is long.
KEEPALIVE_S = 75.0
# How long the rest of a rejected body is read, so that its sender can read the response.
LINGER_S = 2.0
BACKLOG = 1024
# The folder in the memory root with the last good key sets of JWT issuers.
JWKS_FOLDER = "jwks"


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
                requires_key=services.authorizer.requires_key,
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
        line = await stack.enter_async_context(ReconnectingConnection(self._address))
        return Services(
            self._options,
            catalog,
            Directory(catalog),
            Deployments(catalog, line, self._secrets),
            requester=await stack.enter_async_context(
                Requester(self._address, self._options.ingress)
            ),
            line=line,
            follower=await stack.enter_async_context(Follower(self._address)),
            channels=await stack.enter_async_context(Channels(self._address)),
            traffic=Traffic(),
            secrets=self._secrets,
            authorizer=Authorizer(
                catalog,
                on_loopback=is_loopback(self._options.host),
                tokens=await self._start_verifier(stack),
            ),
        )

    async def _start_verifier(self, stack: AsyncExitStack) -> TokenVerifier | None:
        """Return the verifier of JWTs, if an issuer is configured. Raises NoPyJwt."""
        verifier = load_verifier(self._options.jwt, self._root / JWKS_FOLDER)
        if verifier is not None:
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
        if not has_keys and not is_loopback(host):
            raise CannotListen(
                f"web.host is {host}, but no key was made yet, and without keys only loopback "
                "addresses are served. Create one first: "
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
        self.url = f"http://{url_host}:{bound_port}"
        return server


def _listen_fix(error: OSError) -> str:
    if error.errno == EADDRINUSE:
        return "is another server running? Set web.port or MEMRELAY_WEB__PORT to a free port"
    return (
        "set web.host or MEMRELAY_WEB__HOST to an address of this machine, and web.port to a "
        "free port"
    )

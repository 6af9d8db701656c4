"""The web server: opens what it needs, listens, and ends in order."""

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
from memrelay.bus.streams.follow import Follower
from memrelay.memory.control.catalog import Catalog
from memrelay.web.api.deployments import Deployments
from memrelay.web.api.directory import Directory
from memrelay.web.auth.authorizer import Authorizer
from memrelay.web.server.app import is_loopback, make_app
from memrelay.web.server.connection_limits import ConnectionLimits, Traffic
from memrelay.web.server.errors import TellingHandler, malformed_log
from memrelay.web.server.services import Secret, Services, WebOptions

log = structlog.stdlib.get_logger(__name__)
NO_KEYS = "every program on this machine, and only on loopback: no key was ever made"
GRACE_S = 5.0  # how long requests under way may take when the server ends
KEPT_S = 75.0  # how long a connection is kept between two requests: longer than proxies keep theirs
# for how long the rest of a body that was refused is thrown away, so that its sender reads why
LINGER_S = 2.0
WAITING_TO_CONNECT = 1024


class CannotListen(OSError):
    """The address cannot be listened on; the text has the remedy."""


class WebServer:
    """Serves HTTP. It needs the bus only when a request does, and outlives its losses."""

    def __init__(
        self, address: Address, memory_root: Path, options: WebOptions, secret: Secret
    ) -> None:
        """`secret` gives what a reference in a bundle stands for."""
        self._address, self._root, self._options, self._secret = (
            address,
            memory_root,
            options,
            secret,
        )
        self._stopping = asyncio.Event()
        self.ready = asyncio.Event()
        self.url = ""  # once it is ready

    def stop(self) -> None:
        """Asks the server to end: it takes nothing more, and `run` returns."""
        self._stopping.set()

    async def run(self) -> None:
        """Serves until `stop`. Raises CannotListen and StoreBroken."""
        async with AsyncExitStack() as stack:
            parts = await self._make_parts(stack)
            keys = (await parts.authoriser.ring()).keys
            runner = web.AppRunner(make_app(parts), access_log=None, shutdown_timeout=GRACE_S)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            assert runner.server is not None
            make = partial(
                TellingHandler,
                runner.server,
                loop=asyncio.get_running_loop(),
                logger=malformed_log,
                access_log=None,  # type: ignore[arg-type]  # none, as for AppRunner
                keepalive_timeout=KEPT_S,
                lingering_time=LINGER_S,
                auto_decompress=False,
            )
            keeper = ConnectionLimits(
                make, self._options.connections, self._options.read_timeout_s, parts.traffic
            )
            stack.callback((await self._listen(keeper, bool(keys))).close)
            stack.callback(asyncio.create_task(keeper.sweep()).cancel)
            stack.callback(keeper.close)
            self.ready.set()
            log.info(
                "web_ready",
                url=self.url,
                who_may_call="who has a key" if keys else NO_KEYS,
            )
            await self._stopping.wait()
        self.ready.clear()

    async def _make_parts(self, stack: AsyncExitStack) -> Services:
        catalog = await stack.enter_async_context(Catalog(self._root))
        line = await stack.enter_async_context(ReconnectingConnection(self._address))
        return Services(
            self._options,
            catalog,
            Directory(catalog),
            Deployments(catalog, line),
            requester=await stack.enter_async_context(
                Requester(self._address, self._options.ingress)
            ),
            line=line,
            follower=await stack.enter_async_context(Follower(self._address)),
            traffic=Traffic(),
            secret=self._secret,
            authoriser=Authorizer(catalog, on_loopback=is_loopback(self._options.host)),
        )

    async def _listen(self, keeper: ConnectionLimits, has_keys: bool) -> asyncio.Server:
        host, port = self._options.host, self._options.port
        if not has_keys and not is_loopback(host):
            raise CannotListen(
                f"web.host is {host}, and no key was made yet: without keys only loopback addresses are served. "
                "Make one first: memrelay keys create NAME --scope SCOPE --pipeline UID"
            )
        try:
            server = await asyncio.get_running_loop().create_server(
                keeper, host, port, backlog=WAITING_TO_CONNECT
            )
        except OSError as error:
            remedy = (
                "is another one running? Set web.port or MEMRELAY_WEB__PORT to a free port"
                if error.errno == EADDRINUSE
                else "set web.host or MEMRELAY_WEB__HOST to an address of this machine, and web.port to a free port"
            )
            raise CannotListen(
                f"cannot listen on {host}:{port} ({error.strerror}); {remedy}"
            ) from error
        bound = server.sockets[0].getsockname()
        self.url = (
            f"http://[{bound[0]}]:{bound[1]}"
            if ":" in bound[0]
            else f"http://{bound[0]}:{bound[1]}"
        )
        return server

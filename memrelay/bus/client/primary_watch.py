"""Follows the primary of a group through its Sentinels, in every web server and worker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, ConnectionError, RedisError

from memrelay.bus.client.known_primary import Primary, Server
from memrelay.bus.client.primary import ASK_TIMEOUT_S, SentinelFinder
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BadAddress
from memrelay.logs import get_logger

log = get_logger(__name__)
# Pause between two rounds, unless a Sentinel announces a failover.
PAUSE_S = 1.0
# The new primary was promoted; the group follows it.
ANNOUNCED = ("+promoted-slave", "+switch-master")


class PrimaryWatch(SentinelFinder):
    """Asks all Sentinels every second, and when one announces a failover.

    Connections of this process to a former primary are closed. Without answers of a majority they
    stay open: no failover is known, and Sentinels that are down must not stop the bus.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._clients: dict[Server, Redis] = {}
        self._announced = asyncio.Event()

    async def run(self) -> None:
        """Watch until cancelled."""
        has_majority = True
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._close)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            for one in self._address.sentinels:
                tasks.create_task(self._listen(one))
            while True:
                self._announced.clear()
                answers, reasons = await self.ask_all()
                if has_majority and len(answers) < self._majority:
                    log.warning(
                        "sentinels_unreachable",
                        address=str(self._address),
                        reason="; ".join(reasons),
                        remedy="start the Sentinels; until then a failover may go unnoticed",
                    )
                has_majority = len(answers) >= self._majority
                await self._pause()

    async def _pause(self) -> None:
        """Wait until the next round."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PAUSE_S):
                await self._announced.wait()

    async def ask(self, host: str, port: int) -> Primary:
        """Ask one Sentinel over a connection that stays open."""
        async with asyncio.timeout(ASK_TIMEOUT_S):
            return await self._ask(host, port)

    async def _ask(self, host: str, port: int) -> Primary:
        client = self._clients.get((host, port))
        if client is None:
            try:
                client = self._clients[host, port] = await self.log_in(host, port)
            except BadAddress as error:  # TLS files that are being renewed
                raise ConnectionError(str(error)) from error
        try:
            return await self.read(client)
        except AuthenticationError:
            await self._clients.pop((host, port)).aclose()
            raise

    async def _listen(self, sentinel: Server) -> None:
        """Start a round when a Sentinel announces a failover."""
        while True:
            await asyncio.sleep(PAUSE_S)
            if (client := self._clients.get(sentinel)) is None:
                continue
            with suppress(RedisError, OSError):
                await self._follow(client)

    async def _follow(self, client: Redis) -> None:
        """Take the announcements of one Sentinel. Raises RedisError and OSError."""
        async with client.pubsub() as subscription:
            await subscription.subscribe(*ANNOUNCED)
            async for _ in subscription.listen():
                self._announced.set()

    async def _close(self) -> None:
        for client in self._clients.values():
            await client.aclose()


@asynccontextmanager
async def watch_primary(address: Address) -> AsyncIterator[None]:
    """Follow the primary while the context is open, if an address has Sentinels."""
    if not address.sentinels:
        yield
        return
    watching = asyncio.create_task(PrimaryWatch(address).run())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])

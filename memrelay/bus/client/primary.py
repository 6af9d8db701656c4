"""Finds the primary of a group of servers, through redis-py: by Sentinel, or in a cluster.

In a cluster, all keys of a cell are in one slot (memrelay/bus/keys.py), which one primary serves.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelManagedConnection
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import AuthenticationError, ConnectionError, RedisError, ResponseError

from memrelay.bus.client.known_primary import Abortable, Primary, Server, find_known_primary
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusUnavailable
from memrelay.bus.keys import all_cells

# How long one Sentinel or node may take, and how long the others are awaited after a majority.
ASK_TIMEOUT_S, LATE_S = 1.0, 0.1
# The age of the Sentinels' answers beyond which they are asked before an append is acknowledged.
MAX_AGE_S = 2.0
DEMOTED = "the server at this address is now a replica; its successor is looked for again"
FAULTY = frozenset({"s_down", "o_down"})
# By address: the node that answered last, which is asked first. Others may be down.
_last_to_answer: dict[Address, Server] = {}


class PrimaryFinder(ABC):
    """Asks the servers that know the primary. It takes the part of the pool of
    `PrimaryConnection`.
    """

    # redis-py's connection reads these from its pool.
    is_master, check_connection = True, False

    def __init__(self, address: Address) -> None:
        self._address = address

    @abstractmethod
    async def get_master_address(self) -> Server:
        """Return host and port of the primary. Raises redis.exceptions.ConnectionError."""

    @abstractmethod
    async def ask(self, host: str, port: int) -> object:
        """Ask one server for the primary. Raises RedisError and OSError."""

    def add(self, connection: Abortable, server: Server) -> bool:
        """Register an open connection. Return whether its server still is the primary."""
        return True

    def is_current(self, server: Server) -> bool:
        """Return whether no other server is known to be the primary."""
        return True

    def make_client(self, host: str, port: int, *, with_login: bool = True) -> Redis:
        """Return a client that asks one server. Its replies are raw, and the caller limits the
        time: with a timeout, redis-py uses asyncio.wait_for, which swallows cancellation in
        Python 3.11.
        """
        address = self._address
        login = {"username": address.username or None, "password": address.password or None}
        options = address.make_tls_options() | {"ssl": address.tls}
        client = Redis(
            host=host,
            port=port,
            protocol=2,
            socket_timeout=None,
            socket_connect_timeout=ASK_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            driver_info=None,
            **(options | login if with_login else options),
        )
        client.response_callbacks.clear()
        return client


class SentinelFinder(PrimaryFinder):
    """Asks all Sentinels. The highest config epoch that this process has seen counts."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.known = find_known_primary(address)
        self._majority = len(address.sentinels) // 2 + 1

    async def get_master_address(self) -> Server:
        """Return host and port of the primary. Raises redis.exceptions.ConnectionError."""
        answers, reasons = await self.ask_all()
        primary = self.known.primary
        named = [answer for answer in answers if primary and answer.server == primary.server]
        if not answers or primary is None or (named and all(one.sees_fault for one in named)):
            failure = f"no Sentinel knows a primary of {self._address.service!r}"
            raise ConnectionError(f"{failure}: {'; '.join(reasons) or 'it is down'}")
        return primary.server

    async def ask_all(self) -> tuple[list[Primary], list[str]]:
        """Ask all Sentinels, and learn from their answers. Return them, and what failed."""
        asking = [asyncio.create_task(self.ask(*one)) for one in self._address.sentinels]
        answers, reasons = list[Primary](), list[str]()
        try:
            await self._collect(asking, answers, reasons)
        except TimeoutError:
            reasons.append("some do not answer")
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        if answers:
            self.known.take(answers, is_majority=len(answers) >= self._majority)
        else:
            self.known.asked_s = float("inf")
        return answers, reasons

    async def _collect(
        self, asking: list[asyncio.Task[Primary]], answers: list[Primary], reasons: list[str]
    ) -> None:
        """Collect answers until LATE_S after those of a majority. Raises TimeoutError."""
        async with asyncio.timeout(2 * ASK_TIMEOUT_S) as limit:
            for one in asyncio.as_completed(asking):
                try:
                    answers.append(await one)
                except (RedisError, OSError) as error:
                    reasons.append(str(error) or "a Sentinel does not answer")
                if len(answers) >= self._majority:
                    limit.reschedule(asyncio.get_running_loop().time() + LATE_S)

    async def confirm(self) -> None:
        """Ask again if the last answers are old, because this process was paused."""
        if time.monotonic() - self.known.asked_s > MAX_AGE_S:
            await self.ask_all()

    async def ask(self, host: str, port: int) -> Primary:
        """Ask one Sentinel. It may have the password of the servers, or none."""
        async with asyncio.timeout(ASK_TIMEOUT_S), await self.log_in(host, port) as client:
            return await self.read(client)

    async def log_in(self, host: str, port: int) -> Redis:
        """Return a client of a Sentinel. Raises RedisError and OSError."""
        client = self.make_client(host, port)
        async with AsyncExitStack() as undo:
            undo.push_async_callback(client.aclose)
            try:
                await client.execute_command("PING")  # type: ignore[no-untyped-call]
            except AuthenticationError:
                return self.make_client(host, port, with_login=False)
            undo.pop_all()
        return client

    async def read(self, client: Redis) -> Primary:
        """Read the answer of one Sentinel. Raises RedisError and OSError."""
        service = self._address.service
        asking = client.pipeline(transaction=False)
        # The Sentinel that leads a failover names the new primary before it has replaced the old
        # one in its table. The epoch is read first, so it is never newer than the address.
        asking.execute_command("SENTINEL", "MASTER", service)
        asking.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)
        try:
            words, server = await asking.execute()
        except ResponseError as error:
            raise ConnectionError(f"a Sentinel knows none: {error}") from error
        if not server:
            raise ConnectionError("a Sentinel knows none")
        state = dict(zip(words[::2], words[1::2], strict=True))
        host, port = server[0].decode(), int(server[1])
        is_listed = (state[b"ip"].decode(), int(state[b"port"])) == (host, port)
        flags = state[b"flags"].decode().split(",")
        sees_fault = is_listed and ("master" not in flags or not FAULTY.isdisjoint(flags))
        return Primary(int(state[b"config-epoch"]), host, port, sees_fault)

    def add(self, connection: Abortable, server: Server) -> bool:
        """Register an open connection. Return whether its server still is the primary."""
        return self.known.add(connection, server)

    def is_current(self, server: Server) -> bool:
        """Return whether no other server is known to be the primary."""
        return self.known.is_current(server)


class ClusterFinder(PrimaryFinder):
    """Asks the nodes of a cluster, one after another."""

    async def get_master_address(self) -> Server:
        """Return host and port of the primary. Raises redis.exceptions.ConnectionError."""
        address, reasons = self._address, []
        first = _last_to_answer.get(address)
        for one in sorted(address.nodes, key=lambda one: one != first):
            try:
                found = await self.ask(*one)
            except (RedisError, OSError) as error:
                reasons.append(str(error) or f"{one[0]}:{one[1]} does not answer")
                continue
            _last_to_answer[address] = one
            return found
        failure = "no node of the cluster knows the primary of the keys"
        raise ConnectionError(f"{failure}: {'; '.join(reasons)}")

    async def ask(self, host: str, port: int) -> Server:
        """Ask one node which primary has the slot of the cell, by default of the first one."""
        slot = key_slot(f"{{{self._address.cell or all_cells()[0]}}}".encode())
        async with asyncio.timeout(ASK_TIMEOUT_S), self.make_client(host, port) as client:
            ranges: Any = await client.execute_command("CLUSTER SLOTS")  # type: ignore[no-untyped-call]
        for first, last, primary, *_ in ranges:
            if first <= slot <= last:
                # A node that does not know its own address leaves it out.
                return (primary[0] or b"").decode() or host, int(primary[1])
        raise ConnectionError(f"{host}:{port} knows none for the slot {slot}")


def make_finder(address: Address) -> PrimaryFinder:
    """Return the finder for an address with Sentinels or nodes."""
    return SentinelFinder(address) if address.sentinels else ClusterFinder(address)


class PrimaryConnection(SentinelManagedConnection):
    """A connection of redis-py to the primary. It refuses a server that is not the primary any
    more, because the server that named it may know that later. It returns no reply of a server
    that was replaced meanwhile.
    """

    async def on_connect_check_health(self, check_health: bool = True) -> None:
        """Log in and check the role."""
        await super().on_connect_check_health(check_health)
        await self.send_command("ROLE")
        is_current = self.connection_pool.add(self, (self.host, self.port))
        if not is_primary(await self.read_response()) or not is_current:
            raise ConnectionError(DEMOTED)

    async def read_response(self, *arguments: Any, **options: Any) -> Any:
        """Return a reply. Raises ConnectionError if another server is the primary now."""
        reply = await super().read_response(*arguments, **options)
        if not self.connection_pool.is_current((self.host, self.port)):
            raise ConnectionError(DEMOTED)
        return reply

    def abort(self) -> None:
        """Close the socket at once. Replies that are due fail."""
        if self._writer is not None:
            self._writer.transport.abort()


class PrimaryTlsConnection(PrimaryConnection, SSLConnection):
    """The same over TLS."""


def is_primary(reply: Sequence[Any]) -> bool:
    """Return whether a reply to ROLE is that of a primary."""
    return reply[0] in (b"master", "master")


def make_pool_options(address: Address) -> dict[str, Any]:
    """Return the arguments of a redis-py connection pool to a server, or to the primary.

    Raises BadAddress if a TLS file cannot be used.
    """
    options = address.make_redis_options()
    if not address.watchers:
        return options
    kind = PrimaryTlsConnection if address.tls else PrimaryConnection
    return options | {"connection_class": kind, "connection_pool": make_finder(address)}


async def count_answering(address: Address) -> int:
    """Return how many Sentinels, or nodes of the cluster, know the primary."""
    finder, count = make_finder(address), 0
    for one in address.watchers:
        try:
            await finder.ask(*one)
        except (RedisError, OSError):
            continue
        count += 1
    return count


async def find_primary(finder: PrimaryFinder) -> Server:
    """Return host and port of the primary. Raises BusUnavailable."""
    try:
        return await finder.get_master_address()
    except ConnectionError as error:
        raise BusUnavailable(str(error)) from error

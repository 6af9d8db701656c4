"""Finds the primary of a group of servers, through redis-py: by Sentinel, or in a cluster.

In a cluster, all keys of a cell are in one slot (memrelay/bus/keys.py), which one primary serves.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import SSLConnection
from redis.asyncio.sentinel import Sentinel, SentinelManagedConnection
from redis.crc import key_slot
from redis.exceptions import AuthenticationError, ConnectionError, RedisError

from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusUnavailable
from memrelay.bus.keys import all_cells

# How long one Sentinel may take.
ASK_TIMEOUT_S = 1.0
DEMOTED = "the server at this address is now a replica; its successor is looked for again"
# By address: the Sentinel or node that answered last, which is asked first. Others may be down.
_last_to_answer: dict[Address, tuple[str, int]] = {}


class PrimaryFinder(ABC):
    """Asks the servers that know the primary. It takes the part of the pool of
    `PrimaryConnection`.
    """

    # redis-py's connection reads these from its pool.
    is_master, check_connection = True, False

    def __init__(self, address: Address) -> None:
        self._address = address

    async def get_master_address(self) -> tuple[str, int]:
        """Return host and port of the primary. Raises redis.exceptions.ConnectionError."""
        address, reasons = self._address, []
        first = _last_to_answer.get(address)
        for one in sorted(address.watchers, key=lambda one: one != first):
            try:
                found = await self.ask(*one)
            except (RedisError, OSError) as error:
                reasons.append(str(error))
                continue
            _last_to_answer[address] = one
            return found
        raise ConnectionError(f"{self._failure}: {'; '.join(reasons)}")

    @property
    @abstractmethod
    def _failure(self) -> str:
        """The message if no server knows the primary."""

    @abstractmethod
    async def ask(self, host: str, port: int) -> tuple[str, int]:
        """Ask one server. Raises RedisError and OSError."""

    def _make_options(self, *, with_login: bool) -> dict[str, Any]:
        """Return the arguments of a redis-py client that asks."""
        address = self._address
        login = {"username": address.username or None, "password": address.password or None}
        timeouts = {"socket_timeout": ASK_TIMEOUT_S, "socket_connect_timeout": ASK_TIMEOUT_S}
        options = address.make_tls_options() | {"ssl": address.tls} | timeouts
        return options | login if with_login else options


class SentinelFinder(PrimaryFinder):
    @property
    def _failure(self) -> str:
        return f"no Sentinel knows a primary of {self._address.service!r}"

    async def ask(self, host: str, port: int) -> tuple[str, int]:
        """Ask one Sentinel. It may have the password of the servers, or none."""
        try:
            return await self._ask(host, port, self._make_options(with_login=True))
        except AuthenticationError:
            return await self._ask(host, port, self._make_options(with_login=False))

    async def _ask(self, host: str, port: int, options: dict[str, Any]) -> tuple[str, int]:
        sentinel = Sentinel([(host, port)], sentinel_kwargs=options)  # type: ignore[no-untyped-call]
        (client,) = sentinel.sentinels
        async with client:
            groups: Any = await client.sentinel_masters()
        service = self._address.service
        state = groups.get(service)
        if not state or not sentinel.check_master_state(state, service):
            raise ConnectionError(f"{host}:{port} knows none")
        return str(state["ip"]), int(state["port"])


class ClusterFinder(PrimaryFinder):
    @property
    def _failure(self) -> str:
        return "no node of the cluster knows the primary of the keys"

    async def ask(self, host: str, port: int) -> tuple[str, int]:
        """Ask one node which primary has the slot of the cell, by default of the first one."""
        slot = key_slot(f"{{{self._address.cell or all_cells()[0]}}}".encode())
        async with Redis(host=host, port=port, **self._make_options(with_login=True)) as client:
            client.response_callbacks.clear()
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
    more, because the server that named it may know that later.
    """

    async def on_connect_check_health(self, check_health: bool = True) -> None:
        """Log in and check the role."""
        await super().on_connect_check_health(check_health)
        await self.send_command("ROLE")
        if not is_primary(await self.read_response()):
            raise ConnectionError(DEMOTED)


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


async def find_primary(address: Address) -> tuple[str, int]:
    """Return host and port of the primary. Raises BusUnavailable."""
    try:
        return await make_finder(address).get_master_address()
    except ConnectionError as error:
        raise BusUnavailable(str(error)) from error

"""Finds the primary of a group of servers that Sentinel watches, through redis-py."""

from collections.abc import Sequence
from typing import Any

from redis.asyncio.connection import SSLConnection
from redis.asyncio.sentinel import Sentinel, SentinelManagedConnection
from redis.exceptions import AuthenticationError, ConnectionError, RedisError

from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusUnavailable

# How long one Sentinel may take.
ASK_TIMEOUT_S = 1.0
DEMOTED = "Sentinel named a server that is now a replica; it is asked again"
# By address: the Sentinel that answered last, which is asked first. Others may be down.
_last_to_answer: dict[Address, tuple[str, int]] = {}


class PrimaryFinder:
    """Asks the Sentinels of an address. It takes the part of the pool of `PrimaryConnection`."""

    # redis-py's connection reads these from its pool.
    is_master, check_connection = True, False

    def __init__(self, address: Address) -> None:
        self._address = address

    async def get_master_address(self) -> tuple[str, int]:
        """Return host and port of the primary. Raises redis.exceptions.ConnectionError."""
        address, reasons = self._address, []
        first = _last_to_answer.get(address)
        for one in sorted(address.sentinels, key=lambda one: one != first):
            try:
                found = await self.ask(*one)
            except (RedisError, OSError) as error:
                reasons.append(str(error))
                continue
            _last_to_answer[address] = one
            return found
        raise ConnectionError(
            f"no Sentinel knows a primary of {address.service!r}: {'; '.join(reasons)}"
        )

    async def ask(self, host: str, port: int) -> tuple[str, int]:
        """Ask one Sentinel. It may have the password of the servers, or none.

        Raises RedisError and OSError.
        """
        address = self._address
        login = {"username": address.username or None, "password": address.password or None}
        try:
            return await self._ask_as(host, port, login)
        except AuthenticationError:
            return await self._ask_as(host, port, {})

    async def _ask_as(self, host: str, port: int, login: dict[str, Any]) -> tuple[str, int]:
        options = login | self._address.make_tls_options() | {"ssl": self._address.tls}
        options |= {"socket_timeout": ASK_TIMEOUT_S, "socket_connect_timeout": ASK_TIMEOUT_S}
        sentinel = Sentinel([(host, port)], sentinel_kwargs=options)  # type: ignore[no-untyped-call]
        (client,) = sentinel.sentinels
        async with client:
            groups: Any = await client.sentinel_masters()
        service = self._address.service
        state = groups.get(service)
        if not state or not sentinel.check_master_state(state, service):
            raise ConnectionError(f"{host}:{port} knows none")
        return str(state["ip"]), int(state["port"])


class PrimaryConnection(SentinelManagedConnection):
    """A connection of redis-py to the primary. It refuses a server that is not the primary any
    more, because a Sentinel may know that later than others.
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
    if not address.sentinels:
        return options
    kind = PrimaryTlsConnection if address.tls else PrimaryConnection
    return options | {"connection_class": kind, "connection_pool": PrimaryFinder(address)}


async def count_answering(address: Address) -> int:
    """Return how many Sentinels know the primary."""
    finder, count = PrimaryFinder(address), 0
    for one in address.sentinels:
        try:
            await finder.ask(*one)
        except (RedisError, OSError):
            continue
        count += 1
    return count


async def find_primary(address: Address) -> tuple[str, int]:
    """Return host and port of the primary. Raises BusUnavailable."""
    try:
        return await PrimaryFinder(address).get_master_address()
    except ConnectionError as error:
        raise BusUnavailable(str(error)) from error

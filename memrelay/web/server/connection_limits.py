"""Limits on connections: how many may be open, how many of them one caller may hold, and how long
a request head may take to arrive.

A connection is held by its address until a request on it is authenticated, then by the caller: a
key or a webhook. Each holder has a share. A WebSocket, a waiting request and an incomplete body
each occupy a connection, so they have the same share.

aiohttp waits for a request head without limit. A `LimitedConnection` therefore sits between each
socket and aiohttp's protocol and records when the next request is due. A periodic sweep closes
overdue connections. Nothing is due while a request is handled (a WebSocket or a long `wait`
included) or while a keep-alive connection is idle.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

from aiohttp import web

from memrelay.web.server.errors import Problem, RequestTimeout, Unavailable

# The value of `due` while a request is handled.
BUSY = inf
# The longest delay between the end of a connection and its closing.
SWEEP_S = 0.5
# Rejections per sweep that send a response. Further connections are closed without one.
MAX_EXPLAINED_REJECTIONS = 200
# The holder of connections without a share: local programs while no key exists, and proxies.
UNLIMITED = ""
MakeProtocol = Callable[[], asyncio.Protocol]


class Traffic:
    """Counters of this process for /metrics and /status."""

    def __init__(self) -> None:
        # Responses by status.
        self.answers: Counter[int] = Counter()
        # Open live listeners.
        self.listeners = 0
        # Listeners disconnected because they read too slowly.
        self.dropped_listeners = 0
        # Listeners that have disconnected for any reason.
        self.departures = 0
        # Open connections.
        self.connections = 0
        # Connections rejected because too many were open.
        self.rejected = 0
        # Connections closed because a request head took too long.
        self.timed_out = 0
        # Bytes received of incomplete bodies, in total and by holder.
        self.pending_bytes = 0
        self.pending_by_holder: Counter[str] = Counter()

    def add_pending(self, holder: str, count: int) -> None:
        """Count bytes of an incomplete body."""
        self.pending_bytes += count
        self.pending_by_holder[holder] += count
        if not self.pending_by_holder[holder]:
            del self.pending_by_holder[holder]


TRAFFIC = web.AppKey("traffic", Traffic)


def shorten_by_sweep(timeout_s: float) -> float:
    """Shorten a timeout so that the next sweep happens before `timeout_s` has passed."""
    return max(timeout_s - SWEEP_S, SWEEP_S)


class ConnectionLimits:
    """Creates the protocol of each new connection and closes connections that are too slow.

    `make_protocol` creates aiohttp's protocol. At most `max_connections` may be open, of which one
    holder may have the part `share`. A request head may take `timeout_s`. `has_share` returns
    whether an address is a holder.
    """

    def __init__(
        self,
        make_protocol: MakeProtocol,
        max_connections: int,
        timeout_s: float,
        traffic: Traffic,
        *,
        share: float,
        has_share: Callable[[str], bool],
    ) -> None:
        self.make_protocol, self._traffic = make_protocol, traffic
        self._has_share = has_share
        self._max_connections = max_connections
        self.max_held = max(1, int(max_connections * share))
        # The connections of each holder, in the order in which it got them.
        self._held: defaultdict[str, dict[LimitedConnection, None]] = defaultdict(dict)
        self.timeout_s = shorten_by_sweep(timeout_s)
        self.connections: set[LimitedConnection] = set()
        self._rejected_since_sweep = 0
        self._closed = False
        self._full_response = _serialize(
            Unavailable(f"web.max_connections ({max_connections}) connections are open; retry")
        )
        self._timeout_response = _serialize(
            RequestTimeout(
                f"the request head did not arrive within {timeout_s:g} s (web.read_timeout_s)"
            )
        )

    def __call__(self) -> "LimitedConnection":
        return LimitedConnection(self)

    def close(self) -> None:
        """Reject all new connections.

        aiohttp ignores data on connections that are created while it shuts down, yet waits for
        their requests. A socket accepted just before the shutdown is such a connection.
        """
        self._closed = True

    def admit(self, connection: "LimitedConnection", transport: asyncio.Transport) -> bool:
        """Count a new connection, or reject it and return False."""
        if self._closed:
            transport.abort()
            return False
        address = str((transport.get_extra_info("peername") or ("",))[0])
        holder = f"address {address}" if self._has_share(address) else UNLIMITED
        if self._traffic.connections < self._max_connections and self._make_room(holder):
            self._traffic.connections += 1
            self._held[holder][connection] = None
            connection.holder = connection.address_holder = holder
            return True
        self._traffic.rejected += 1
        self._rejected_since_sweep += 1
        if self._rejected_since_sweep <= MAX_EXPLAINED_REJECTIONS:
            # The sweep closes it after the client has read the response.
            transport.write(self._full_response)
        else:
            transport.abort()
        return False

    def _make_room(self, holder: str) -> bool:
        """Return whether the holder may have another connection.

        If its share is used, its oldest connection without a complete request is closed, or else
        its oldest idle one.
        """
        held = self._held.get(holder, {})
        if holder == UNLIMITED or len(held) < self.max_held:
            return True
        idle = [one for one in held if one.is_unverified or one.is_idle]
        if not idle:
            return False
        evicted = next((one for one in idle if not one.has_served), idle[0])
        self.release(evicted)
        evicted.evict()
        return True

    def change_holder(self, connection: "LimitedConnection", holder: str) -> None:
        """Count a connection as held by another caller. Raises Unavailable."""
        if not self._make_room(holder):
            raise Unavailable(
                f"this caller has {self.max_held} busy connections, its part of "
                "web.max_connections (web.caller_share); close some and retry"
            )
        self._discard(connection)
        self._held[holder][connection] = None
        connection.holder = holder

    def _discard(self, connection: "LimitedConnection") -> None:
        held = self._held[connection.holder]
        held.pop(connection, None)
        if not held:
            del self._held[connection.holder]

    def release(self, connection: "LimitedConnection") -> None:
        """Count an admitted connection as closed."""
        self._discard(connection)
        self._traffic.connections -= 1

    async def sweep(self) -> None:
        """Close overdue connections periodically, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(SWEEP_S)
            self._rejected_since_sweep, now = 0, clock()
            for connection in [one for one in self.connections if one.is_overdue(now)]:
                self._traffic.timed_out += connection.shut(self._timeout_response)


class LimitedConnection(asyncio.Protocol):
    """One connection.

    `due` is the loop time at which the next request must be complete, None if no request is
    expected, or BUSY while one is handled. If `is_last`, the connection closes after the next
    response, even if the client is still sending. While it `is_unverified`, a body is read whose
    sender is not authenticated yet. It `has_served` after its first request. `on_lost` is called
    when the connection closes.
    """

    __slots__ = (
        "_feed",
        "_has_data",
        "_inner",
        "_is_counted",
        "_limits",
        "_loop",
        "_transport",
        "address_holder",
        "due",
        "has_served",
        "holder",
        "is_last",
        "is_unverified",
        "on_lost",
    )

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits, self._loop = limits, asyncio.get_running_loop()
        # None if the connection was rejected.
        self._inner: asyncio.Protocol | None = None
        self._has_data = self._is_counted = self.is_last = False
        self.has_served = self.is_unverified = False
        # The holder, and that of a sender who is not authenticated.
        self.holder = self.address_holder = UNLIMITED
        self.due: float | None = None
        self.on_lost: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._limits.connections.add(self)
        if self._limits.admit(self, self._transport):
            self._is_counted = True
            self.due = self._loop.time() + self._limits.timeout_s
            self._inner = self._limits.make_protocol()
            self._feed = self._inner.data_received
            self._inner.connection_made(transport)
        else:
            self.is_last, self._feed = True, lambda data: None

    def data_received(self, data: bytes) -> None:
        self._has_data = True
        if self.due is None:
            self.due = self._loop.time() + self._limits.timeout_s
        self._feed(data)

    def eof_received(self) -> bool | None:
        return None if self._inner is None else self._inner.eof_received()

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._limits.connections.discard(self)
        if self.on_lost is not None:
            self.on_lost()
        if self._is_counted:
            self._limits.release(self)
        if self._inner is not None:
            self._inner.connection_lost(error)

    @property
    def is_idle(self) -> bool:
        """Whether no request is handled and no response is still being sent."""
        return self.due != BUSY and not self._transport.get_write_buffer_size()

    def evict(self) -> None:
        """Close the connection, which no longer counts, to make room for another one."""
        self._is_counted = False
        self._transport.abort()

    def hold_for(self, holder: str) -> None:
        """Count the connection as held by this caller. Raises Unavailable."""
        if self._is_counted and self.holder != holder:
            self._limits.change_holder(self, holder)

    def is_overdue(self, now: float) -> bool:
        """Return whether the sweep must close this connection."""
        return self.due != BUSY if self.is_last else self.due is not None and self.due <= now

    def shut(self, response: bytes) -> bool:
        """Close the connection and return whether a request was too slow.

        Sends `response` if a request has begun. A response that is still being sent is completed
        first, so that the client can read it.
        """
        if self._transport.is_closing():
            self._transport.abort()
            return False
        if self._transport.get_write_buffer_size():
            return False
        if self._has_data and not self.is_last:
            self._transport.write(response)
        self._transport.close()
        return not self.is_last


def get_connection(request: web.Request) -> LimitedConnection | None:
    """Return the connection of a request, or None if it has closed."""
    transport = request.transport
    connection = None if transport is None else transport.get_protocol()
    return connection if isinstance(connection, LimitedConnection) else None


def claim_connection(request: web.Request, holder: str) -> None:
    """Count the connection of a request as held by this caller. Raises Unavailable."""
    connection = get_connection(request)
    if connection is not None:
        connection.hold_for(holder)


def get_holder(request: web.Request) -> str:
    """Return the holder of the connection of a request."""
    connection = get_connection(request)
    return UNLIMITED if connection is None else connection.holder


@contextmanager
def reading_unverified(request: web.Request) -> Iterator[None]:
    """Mark the connection during a read whose sender is not authenticated yet.

    Meanwhile its address holds it: a proxy may have sent requests of others on it. Raises
    Unavailable.
    """
    connection = get_connection(request)
    if connection is not None:
        connection.hold_for(connection.address_holder)
        connection.is_unverified = True
    try:
        yield
    finally:
        if connection is not None:
            connection.is_unverified = False


def _serialize(problem: Problem) -> bytes:
    """Return a complete HTTP response, for clients that get one before aiohttp sees a request."""
    response = problem.as_response()
    body = response.body
    assert isinstance(body, bytes)
    head = [
        f"HTTP/1.1 {response.status} {response.reason}",
        "Connection: close",
        f"Content-Length: {len(body)}",
    ]
    head += [
        f"{name}: {value}"
        for name, value in response.headers.items()
        if name not in ("Connection", "Content-Length")
    ]
    return "\r\n".join([*head, "", ""]).encode() + body

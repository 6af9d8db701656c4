"""The door: how many may be connected, and for how long one may keep the server waiting for a
request.

aiohttp itself waits for a request's head as long as it takes. Each connection is a `LimitedConnection` between
the socket and aiohttp's
own protocol: it notes since when a request is owed, and a sweep closes what owes one for too long.
A connection whose request
is being worked on owes nothing, be it a WebSocket or a long `wait`; nor does one that is kept
between two requests.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from math import inf

from aiohttp import web

from memrelay.web.server.errors import Problem, TooSlow, Unavailable

# What this process counts of its own traffic, for /metrics and /status.


class Traffic:
    """Only ever grows, but for what is counted at this moment."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        self.answers: Counter[int] = Counter()  # by status
        self.listeners = 0  # live, at this moment
        self.dropped_listeners = 0  # that were too slow
        self.departures = 0  # of listeners, for whatever reason
        self.connections = 0  # open, at this moment
        self.turned_away = 0  # connections for which there was no room
        self.too_slow = 0  # connections whose request's head was not whole in time
        self.under_way = 0  # bytes of bodies that are not whole yet, at this moment


BUSY = inf  # when the next request is due while one is being worked on
SWEEP_S = 0.5  # the longest time between a connection's end and its closing
MOST_TURNED_AWAY = (
    200  # connections past the limit that are told so; the others are closed without a word
)
MakeProtocol = Callable[[], asyncio.Protocol]


def before_sweep(patience_s: float) -> float:
    """How long to wait for something so that `patience_s` are not over when the next sweep
    comes."""
    return max(patience_s - SWEEP_S, SWEEP_S)


class ConnectionLimits:
    """Makes the protocols of new connections, and closes those that are too slow."""

    def __init__(self, inner: MakeProtocol, most: int, patience_s: float, traffic: Traffic) -> None:
        """`inner` makes aiohttp's protocol; `most` connections are let in; a head may take
        `patience_s`."""
        self.inner, self._most, self._traffic = inner, most, traffic
        self.patience_s = before_sweep(patience_s)
        self.doors: set[LimitedConnection] = set()
        self._turned_away = 0  # since the last sweep
        self._closed = False
        self._full = _as_bytes(
            Unavailable(f"{most} connections are open, and web.max_connections allows no more")
        )
        self._too_slow = _as_bytes(
            TooSlow(
                f"the request's head was not whole within {patience_s:g} s (web.read_timeout_s)"
            )
        )

    def __call__(self) -> "LimitedConnection":
        """asyncio's call: somebody connects."""
        return LimitedConnection(self)

    def close(self) -> None:
        """Lets nobody in from now on. aiohttp takes no word from a connection that is made while it
        ends, and waits for its
        request as long as for those that are under way; one that was accepted just before is made
        only then.
        """
        self._closed = True

    def lets_in(self, transport: asyncio.Transport) -> bool:
        """Whether there is room for one more; one for whom there is none is told."""
        if self._closed:
            transport.abort()
            return False
        if self._traffic.connections < self._most:
            self._traffic.connections += 1
            return True
        self._traffic.turned_away += 1
        self._turned_away += 1
        if self._turned_away <= MOST_TURNED_AWAY:
            transport.write(self._full)  # the sweep closes it, when it has been read
        else:
            transport.abort()
        return False

    def left(self) -> None:
        """One that had been let in is gone."""
        self._traffic.connections -= 1

    async def sweep(self) -> None:
        """Closes what owes a request for too long, until it is cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(SWEEP_S)
            self._turned_away, now = 0, clock()
            for door in [door for door in self.doors if door.is_over(now)]:
                self._traffic.too_slow += door.shut(self._too_slow)


class LimitedConnection(asyncio.Protocol):
    """One connection. `due` is when its next request must be whole, in the loop's time: None while
    none is owed, and BUSY while
    one is being worked on. `is_last`: it ends with the answer that is made next, whatever else is
    still being sent.
    """

    __slots__ = ("_feed", "_heard", "_inner", "_keeper", "_loop", "_transport", "due", "is_last")

    def __init__(self, keeper: ConnectionLimits) -> None:
        """Nothing is open yet."""
        self._keeper, self._loop = keeper, asyncio.get_running_loop()
        self._inner: asyncio.Protocol | None = None  # None where it was turned away
        self._heard = self.is_last = False
        self.due: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's call: the socket is open."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._keeper.doors.add(self)
        if self._keeper.lets_in(self._transport):
            self.due = self._loop.time() + self._keeper.patience_s
            self._inner = self._keeper.inner()
            self._feed = self._inner.data_received
            self._inner.connection_made(transport)
        else:
            self.is_last, self._feed = True, lambda data: None

    def data_received(self, data: bytes) -> None:
        """asyncio's call: the first bytes of a request, or more of one."""
        self._heard = True
        if self.due is None:
            self.due = self._loop.time() + self._keeper.patience_s
        self._feed(data)

    def eof_received(self) -> bool | None:
        """asyncio's call: the other side says nothing more."""
        return None if self._inner is None else self._inner.eof_received()

    def pause_writing(self) -> None:
        """asyncio's call."""
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """asyncio's call."""
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """asyncio's call: the socket is closed."""
        self._keeper.doors.discard(self)
        if self._inner is not None:
            self._keeper.left()
            self._inner.connection_lost(error)

    def is_over(self, now: float) -> bool:
        """Whether it is to be closed."""
        return self.due != BUSY if self.is_last else self.due is not None and self.due <= now

    def shut(self, why: bytes) -> bool:
        """Closes the connection, with the answer `why` where a request was begun; says whether it
        was too slow.

        What still has to be sent is sent first: the other side has to read it.
        """
        if self._transport.is_closing():
            self._transport.abort()
            return False
        if self._transport.get_write_buffer_size():
            return False
        if self._heard and not self.is_last:
            self._transport.write(why)
        self._transport.close()
        return not self.is_last


def door_of(request: web.Request) -> LimitedConnection | None:
    """The door through which a request came; None when that is closed."""
    transport = request.transport
    door = None if transport is None else transport.get_protocol()
    return door if isinstance(door, LimitedConnection) else None


def _as_bytes(fault: Problem) -> bytes:
    """A whole answer, for who is told before there is a request."""
    response = fault.as_response()
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

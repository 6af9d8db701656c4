"""A WebSocket that follows a swarm's log: from a cursor on, then live, with no gap and nothing
twice.

Each listener has a bounded queue of its own. One that does not keep up is told so and dropped, and
holds nobody up.
"""

import asyncio
import gc
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from socket import SO_SNDBUF, SOL_SOCKET

import structlog
from aiohttp import WSCloseCode, WSMsgType, web

from memrelay.bus.errors import BusError
from memrelay.bus.streams.log import LogEntry, cursor_of, goes_on, read_log
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.web.api.answers import refuse_unknown
from memrelay.web.auth.authorizer import Caller
from memrelay.web.server.connection_limits import Traffic
from memrelay.web.server.errors import BadRequest
from memrelay.web.server.services import PARTS, Services, services_of

log = structlog.stdlib.get_logger(__name__)
PAGE = 500  # messages of the log that are read at once, at most
PAGE_BYTES = (
    256 << 10
)  # that they have, since each listener that stops reading keeps a page of its own
BACKLOG_BYTES = 16 << 20  # of the messages that may wait for one listener
SEND_BYTES = 256 << 10  # of them that the system may hold beside those
SWEEP_AFTER = 200  # listeners that have left
FAREWELL_S = 5.0  # how long a listener has to take the reason why it is dropped
LEAVE_S = 2.0  # the same when the server ends: process managers kill after 5
HEARTBEAT_S = 30.0
LISTENERS = web.AppKey("listeners", dict[web.WebSocketResponse, Caller])


async def follow_live(
    request: web.Request, caller: Caller, uid: str, swarm: str
) -> web.WebSocketResponse:
    """Sends {"cursor", "mid", "message"} for each message said after `after=CURSOR`, or from now
    on."""
    refuse_unknown(request, ("after",))
    parts = services_of(request)
    after = request.query.get("after", "")
    try:
        reached = cursor_of(after) if after else None
    except ValueError as error:
        raise BadRequest(f"`after`: {error}") from error
    socket = web.WebSocketResponse(
        heartbeat=HEARTBEAT_S, compress=False, max_msg_size=1024, timeout=FAREWELL_S
    )
    listener = _Listener(socket, parts, (uid, swarm), reached)
    leave = await parts.follower.follow(uid, swarm, listener.take)
    everyone = request.config_dict[LISTENERS]
    try:
        await socket.prepare(request)
        _bound(request.transport)
        everyone[socket] = caller
        parts.traffic.listeners = len(everyone)
        await listener.serve()
    finally:
        leave()
        everyone.pop(socket, None)
        parts.traffic.listeners = len(everyone)
        _let_go(request.transport)
        _sweep(parts.traffic)
    return socket


def _bound(transport: asyncio.Transport | None) -> None:
    """Else the system keeps up to 4 MB for each listener that has stopped reading."""
    connection = None if transport is None else transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(SOL_SOCKET, SO_SNDBUF, SEND_BYTES)


def _let_go(transport: asyncio.Transport | None) -> None:
    """One that was only closed would wait for a listener that has stopped reading, and keep its
    file handle."""
    if transport is not None and transport.is_closing() and transport.get_write_buffer_size():
        transport.abort()


def _sweep(traffic: Traffic) -> None:
    """aiohttp ties a WebSocket, its request and its transport into a ring of 10 kB, and a serving
    process collects seldom."""
    traffic.departures += 1
    if traffic.departures % SWEEP_AFTER == 0:
        gc.collect()


async def close_listeners(app: web.Application) -> None:
    """The server ends: whoever listens is told to come again."""
    goodbye = b"the server ends; come again with ?after=CURSOR"
    closing = [
        asyncio.create_task(socket.close(code=WSCloseCode.GOING_AWAY, message=goodbye, drain=False))
        for socket in app[LISTENERS]
    ]
    if closing:
        _, late = await asyncio.wait(closing, timeout=LEAVE_S)
        for task in late:
            task.cancel()


class _Listener:
    """One WebSocket: what waits for it, and how far it has got."""

    def __init__(
        self,
        socket: web.WebSocketResponse,
        parts: Services,
        place: tuple[str, str],
        reached: tuple[int, int] | None,
    ) -> None:
        """Follows the swarm (uid, name) after the cursor `reached`; None is from now on."""
        self._socket, self._parts, self._place, self._reached = (
            socket,
            parts,
            place,
            reached or (0, 0),
        )
        self._most = parts.options.listener_backlog
        self._catching_up = (
            reached is not None
        )  # while the log is read there is no need to queue what is in it
        self._queue: deque[LogEntry] = deque()
        self._size = 0  # bytes in the queue
        self._page = 8  # messages of the log that are read next
        self._more = asyncio.Event()
        self._cut_off = False  # the bus was away while the log was read
        self._behind: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def take(self, said: list[LogEntry]) -> None:
        """New messages of the log."""
        if self._catching_up or self._behind.done():
            return
        self._queue.extend(said)
        self._size += sum(len(one.data) for one in said)
        self._more.set()
        if len(self._queue) > self._most or self._size > BACKLOG_BYTES:
            self._behind.set_result(None)

    @property
    def _cursor(self) -> str:
        return "-".join(map(str, self._reached))

    async def serve(self) -> None:
        """Until the listener leaves or falls behind."""
        tasks = asyncio.create_task(self._receive()), asyncio.create_task(self._send())
        try:
            await asyncio.wait([*tasks, self._behind], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if self._behind.done():
            await self._drop()
        elif self._cut_off:
            await self._farewell(
                f"the log cannot be read now; come again with ?after={self._cursor}"
            )

    async def _receive(self) -> None:
        """What a listener says is not heard; this ends when it leaves."""
        async for _ in self._socket:
            pass

    async def _send(self) -> None:
        try:
            if self._catching_up:
                await self._catch_up()
            while True:
                await self._send_queue()
                self._more.clear()
                await self._more.wait()
        except BusError:
            self._cut_off = True
        except ConnectionError:
            return  # the listener has left

    async def _send_queue(self) -> None:
        while self._queue:
            said = self._queue.popleft()
            self._size -= len(said.data)
            await self._send_one(said)

    async def _catch_up(self) -> None:
        """Reads the log to its end; then once more with the queue open, so that nothing falls
        between."""
        while await self._send_page():
            pass
        self._catching_up = False
        while await self._send_page():
            pass

    async def _send_page(self) -> bool:
        """Whether there may be more."""
        uid, swarm = self._place
        limit = self._page
        said = await read_log(
            self._parts.line, uid, swarm, after=self._cursor, limit=limit, most_bytes=PAGE_BYTES
        )
        more = goes_on(said, limit, PAGE_BYTES)
        if said:  # as many as fit, so that few are read in vain
            self._page = min(
                PAGE, 2 * limit, 1 + PAGE_BYTES * len(said) // sum(len(one.data) for one in said)
            )
        for one in said:
            await self._send_one(one)
        return more

    async def _send_one(self, said: LogEntry) -> None:
        if said.place > self._reached:
            self._reached = said.place
            await self._socket.send_frame(as_frame(said), WSMsgType.TEXT)

    async def _drop(self) -> None:
        """Whoever has stopped reading gets the reason when it goes on, if it does so soon."""
        self._parts.traffic.dropped_listeners += 1
        log.warning(
            "listener_dropped",
            reason="too slow",
            backlog=len(self._queue),
            pipeline=self._place[0],
            cursor=self._cursor,
        )
        await self._farewell(
            f"too slow: more than {self._most} messages behind; come again with ?after={self._cursor}"
        )

    async def _farewell(self, reason: str) -> None:
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(FAREWELL_S):
                # Without drain: in aiohttp that waits for the same future as the sending task,
                # which was cancelled with it.
                await self._socket.close(
                    code=WSCloseCode.TRY_AGAIN_LATER, message=reason.encode(), drain=False
                )


def as_frame(said: LogEntry) -> bytes:
    """A message of a log as it is sent live, in JSON."""
    return b'{"cursor":"%s","mid":"%s","message":%s}' % (
        said.cursor.encode(),
        said.mid.encode(),
        said.data,
    )


# Listeners whose key was revoked or has expired: within a second they hear nothing more.

EVERY_S = 0.5


async def evicting(app: web.Application) -> AsyncIterator[None]:
    """Looks at the listeners as long as the application serves."""
    looking = asyncio.create_task(_look_forever(app))
    yield
    looking.cancel()
    with suppress(asyncio.CancelledError):
        await looking


async def _look_forever(app: web.Application) -> None:
    leaving: set[asyncio.Task[bool]] = set()
    while True:
        await asyncio.sleep(EVERY_S)
        if not app[LISTENERS]:
            continue
        with suppress(
            StoreBusy, StoreBroken
        ):  # while the keys cannot be read nobody comes in, and who was let in stays
            for socket, reason in await _overdue(app):
                task = asyncio.create_task(
                    socket.close(code=WSCloseCode.POLICY_VIOLATION, message=reason, drain=False)
                )
                leaving.add(task)
                task.add_done_callback(leaving.discard)


async def _overdue(app: web.Application) -> list[tuple[web.WebSocketResponse, bytes]]:
    """Who has to leave, and why."""
    authoriser = app[PARTS].authoriser
    ring, now_ms = await authoriser.ring(anew=True), authoriser.now_ms
    found = [
        (socket, ring.fault(caller, now_ms))
        for socket, caller in app[LISTENERS].items()
        if not socket.closed
    ]
    return [(socket, fault.encode()) for socket, fault in found if fault]

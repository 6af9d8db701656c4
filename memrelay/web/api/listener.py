"""WebSockets that send a stream: from a position on, then live, without gaps or duplicates.

Each listener has its own bounded queue. A listener that reads too slowly is disconnected with the
reason and delays no other listener.
"""

import asyncio
import gc
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from socket import SO_SNDBUF, SOL_SOCKET
from typing import Generic, Protocol, TypeVar

from aiohttp import WSCloseCode, WSMsgType, web

from memrelay.bus.errors import BusError
from memrelay.bus.streams.log import LogEntry, may_continue, parse_cursor, read_log
from memrelay.logs import get_logger
from memrelay.web.api.answers import refuse_unknown
from memrelay.web.auth.revocation import watch_access
from memrelay.web.server.connection_limits import Traffic
from memrelay.web.server.errors import BadRequest
from memrelay.web.services import Services, get_services

log = get_logger(__name__)
# Bytes of the messages queued for one listener.
BACKLOG_BYTES = 16 << 20
# Bytes that the kernel may buffer in addition.
SEND_BYTES = 256 << 10
# Disconnected listeners per garbage collection.
COLLECT_AFTER = 200
# How long a listener may take to read the reason for its disconnection.
CLOSE_TIMEOUT_S = 5.0
# The same at shutdown. Process managers kill after 5 s.
SHUTDOWN_TIMEOUT_S = 2.0
HEARTBEAT_S = 30.0
MAX_RECEIVED_BYTES = 1024
LISTENERS = web.AppKey("listeners", set[web.WebSocketResponse])
StreamPosition = tuple[int, int]
# Messages per read of the log.
PAGE_SIZE = 500
FIRST_PAGE_SIZE = 8
# Bytes per read. A listener that stops reading keeps one page in memory.
PAGE_BYTES = 256 << 10


class Streamed(Protocol):
    """A message of a stream."""

    @property
    def place(self) -> StreamPosition | None:
        """Return its position, which grows from message to message; None outside of this order."""

    @property
    def data(self) -> bytes:
        """Return its content, whose size counts for the limit of the queue."""


Sent = TypeVar("Sent", bound=Streamed)
Deliver = Callable[[list[Sent]], None]
Unfollow = Callable[[], None]


class Stream(ABC, Generic[Sent]):
    """What one listener follows. `uid` is the pipeline."""

    def __init__(self, uid: str) -> None:
        self.uid = uid

    @abstractmethod
    def follow(self, deliver: Deliver[Sent]) -> Awaitable[Unfollow]:
        """Call `deliver` with new messages, until the returned function is called. Raises
        BusError.
        """

    @abstractmethod
    async def read_page(self, after: StreamPosition) -> tuple[Sequence[Sent], bool]:
        """Return messages after a position, and whether there may be more. Raises BusError."""

    @abstractmethod
    def to_frame(self, message: Sent) -> bytes:
        """Return a message as the JSON that the listener receives."""

    @abstractmethod
    def to_cursor(self, place: StreamPosition) -> str:
        """Return the cursor of a position."""

    def answer(self, text: str) -> Sent | None:
        """Return the answer to a text that the listener sends, None for no answer."""
        return None


async def serve_stream(
    request: web.Request, stream: Stream[Sent], reached: StreamPosition | None
) -> web.WebSocketResponse:
    """Send the messages of a stream after the position `reached`, or from now on.

    Raises BusError before the WebSocket opens.
    """
    services = get_services(request)
    socket = web.WebSocketResponse(
        heartbeat=HEARTBEAT_S,
        compress=False,
        max_msg_size=MAX_RECEIVED_BYTES,
        timeout=CLOSE_TIMEOUT_S,
    )
    listener = _Listener(socket, services, stream, reached)
    unfollow = await stream.follow(listener.enqueue)
    listeners = request.config_dict[LISTENERS]
    try:
        await socket.prepare(request)
        _limit_send_buffer(request.transport)
        listeners.add(socket)
        services.traffic.listeners = len(listeners)
        with watch_access(request, listener.end):
            await listener.serve()
    finally:
        unfollow()
        listeners.discard(socket)
        services.traffic.listeners = len(listeners)
        _abort_if_stuck(request.transport)
        _collect_garbage(services.traffic)
    return socket


def _limit_send_buffer(transport: asyncio.Transport | None) -> None:
    """Limit the kernel's send buffer, which grows to 4 MB if a listener stops reading."""
    connection = None if transport is None else transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(SOL_SOCKET, SO_SNDBUF, SEND_BYTES)


def _abort_if_stuck(transport: asyncio.Transport | None) -> None:
    """Abort a closing transport that has unsent data.

    It would keep its file descriptor until the listener reads on.
    """
    if transport is not None and transport.is_closing() and transport.get_write_buffer_size():
        transport.abort()


def _collect_garbage(traffic: Traffic) -> None:
    """Collect garbage after every COLLECT_AFTER listeners.

    aiohttp leaves a reference cycle of 10 kB per WebSocket, and a busy process collects rarely.
    """
    traffic.departures += 1
    if traffic.departures % COLLECT_AFTER == 0:
        gc.collect()


async def close_listeners(app: web.Application) -> None:
    """Close all listeners at shutdown and ask them to reconnect."""
    message = b"the server is shutting down; reconnect with ?after=CURSOR"
    closing = [
        asyncio.create_task(socket.close(code=WSCloseCode.GOING_AWAY, message=message, drain=False))
        for socket in app[LISTENERS]
    ]
    if closing:
        _, late = await asyncio.wait(closing, timeout=SHUTDOWN_TIMEOUT_S)
        for task in late:
            task.cancel()


class _Listener(Generic[Sent]):
    """One WebSocket with its queue and position.

    It follows the stream after the position `reached`. None means from now on.
    """

    def __init__(
        self,
        socket: web.WebSocketResponse,
        services: Services,
        stream: Stream[Sent],
        reached: StreamPosition | None,
    ) -> None:
        self._socket, self._services, self._stream = socket, services, stream
        self._reached = reached or (0, 0)
        self._max_queued = services.options.listener_backlog
        # While the stream is being read, new messages are in it and need no queue.
        self._catching_up = reached is not None
        self._queue: deque[Sent] = deque()
        self._queued_bytes = 0
        self._has_more = asyncio.Event()
        # The bus failed while the stream was read.
        self._cut_off = False
        self._behind: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ending: asyncio.Task[bool] | None = None

    def enqueue(self, messages: list[Sent]) -> None:
        """Queue new messages of the stream."""
        if self._behind.done():
            return
        if self._catching_up:
            messages = [message for message in messages if message.place is None]
        self._queue.extend(messages)
        self._queued_bytes += sum(len(message.data) for message in messages)
        self._has_more.set()
        if len(self._queue) > self._max_queued or self._queued_bytes > BACKLOG_BYTES:
            self._behind.set_result(None)

    @property
    def _cursor(self) -> str:
        return self._stream.to_cursor(self._reached)

    def end(self, reason: str) -> None:
        """Disconnect the listener because it lost access."""
        if not self._socket.closed:
            self._ending = asyncio.create_task(
                self._socket.close(
                    code=WSCloseCode.POLICY_VIOLATION, message=reason.encode(), drain=False
                )
            )

    async def serve(self) -> None:
        """Send messages until the listener disconnects or falls behind."""
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
            await self._close(f"the log cannot be read now; reconnect with ?after={self._cursor}")

    async def _receive(self) -> None:
        """Answer messages of the listener, if the stream does. Returns when it disconnects."""
        async for received in self._socket:
            if received.type is WSMsgType.TEXT:
                answer = self._stream.answer(received.data)
                if answer is not None:
                    self.enqueue([answer])

    async def _send(self) -> None:
        try:
            if self._catching_up:
                await self._catch_up()
            while True:
                await self._send_queue()
                self._has_more.clear()
                await self._has_more.wait()
        except BusError:
            self._cut_off = True
        except ConnectionError:
            return

    async def _send_queue(self) -> None:
        while self._queue:
            message = self._queue.popleft()
            self._queued_bytes -= len(message.data)
            await self._send_one(message)

    async def _catch_up(self) -> None:
        """Read the stream to its end, then once more with the queue open, which leaves no gap."""
        while await self._send_page():
            pass
        self._catching_up = False
        while await self._send_page():
            pass

    async def _send_page(self) -> bool:
        """Send the next page of the stream and return whether there may be more."""
        messages, may_have_more = await self._stream.read_page(self._reached)
        for message in messages:
            await self._send_one(message)
        return may_have_more

    async def _send_one(self, message: Sent) -> None:
        place = message.place
        if place is not None:
            if place <= self._reached:
                return
            self._reached = place
        await self._socket.send_frame(self._stream.to_frame(message), WSMsgType.TEXT)

    async def _drop(self) -> None:
        """Disconnect a slow listener. It gets the reason if it reads on soon."""
        self._services.traffic.dropped_listeners += 1
        log.warning(
            "listener_dropped",
            reason="too slow",
            backlog=len(self._queue),
            pipeline=self._stream.uid,
            cursor=self._cursor,
        )
        await self._close(
            f"too slow: more than {self._max_queued} messages behind; reconnect with "
            f"?after={self._cursor}"
        )

    async def _close(self, reason: str) -> None:
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                # Draining would wait for the future of the sending task, which was cancelled.
                await self._socket.close(
                    code=WSCloseCode.TRY_AGAIN_LATER, message=reason.encode(), drain=False
                )


async def follow_live(request: web.Request, uid: str, swarm: str) -> web.WebSocketResponse:
    """Send {cursor, mid, message} for each message after `after=CURSOR`, or from now on."""
    refuse_unknown(request, ("after",))
    after = request.query.get("after", "")
    try:
        reached = parse_cursor(after) if after else None
    except ValueError as error:
        raise BadRequest(f"`after`: {error}") from error
    return await serve_stream(request, _SwarmLog(get_services(request), uid, swarm), reached)


class _SwarmLog(Stream[LogEntry]):
    """The log of a swarm, for one listener."""

    def __init__(self, services: Services, uid: str, swarm: str) -> None:
        super().__init__(uid)
        self._services, self._swarm = services, swarm
        # Messages to request with the next read of the log.
        self._page_size = FIRST_PAGE_SIZE

    def follow(self, deliver: Deliver[LogEntry]) -> Awaitable[Unfollow]:
        return self._services.follower.follow(self.uid, self._swarm, deliver)

    async def read_page(self, after: StreamPosition) -> tuple[list[LogEntry], bool]:
        limit = self._page_size
        entries = await read_log(
            self._services.line,
            self.uid,
            self._swarm,
            after=self.to_cursor(after),
            limit=limit,
            most_bytes=PAGE_BYTES,
        )
        if entries:
            # Request about as many as fit into PAGE_BYTES, so that few are read in vain.
            fitting = 1 + PAGE_BYTES * len(entries) // sum(len(one.data) for one in entries)
            self._page_size = min(PAGE_SIZE, 2 * limit, fitting)
        return entries, may_continue(entries, limit, PAGE_BYTES)

    def to_frame(self, message: LogEntry) -> bytes:
        return b'{"cursor":"%s","mid":"%s","message":%s}' % (
            message.cursor.encode(),
            message.mid.encode(),
            message.data,
        )

    def to_cursor(self, place: StreamPosition) -> str:
        return "-".join(map(str, place))

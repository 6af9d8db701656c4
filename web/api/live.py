"""WebSockets that follow a swarm's log: from a cursor, then live, without gaps or duplicates.

Each listener has its own bounded queue. A listener that reads too slowly is disconnected with the
reason and delays no other listener.
"""

import asyncio
import gc
from collections import deque
from contextlib import suppress
from socket import SO_SNDBUF, SOL_SOCKET

import structlog
from aiohttp import WSCloseCode, WSMsgType, web

from memrelay.bus.errors import BusError
from memrelay.bus.streams.log import LogEntry, may_continue, parse_cursor, read_log
from memrelay.web.api.answers import refuse_unknown
from memrelay.web.auth.revocation import watch_access
from memrelay.web.server.connection_limits import Traffic
from memrelay.web.server.errors import BadRequest
from memrelay.web.server.services import Services, get_services

log = structlog.stdlib.get_logger(__name__)
# Messages per read of the log.
PAGE_SIZE = 500
# Bytes per read. A listener that stops reading keeps one page in memory.
PAGE_BYTES = 256 << 10
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
LISTENERS = web.AppKey("listeners", set[web.WebSocketResponse])


async def follow_live(request: web.Request, uid: str, swarm: str) -> web.WebSocketResponse:
    """Send {cursor, mid, message} for each message after `after=CURSOR`, or from now on."""
    refuse_unknown(request, ("after",))
    services = get_services(request)
    after = request.query.get("after", "")
    try:
        reached = parse_cursor(after) if after else None
    except ValueError as error:
        raise BadRequest(f"`after`: {error}") from error
    socket = web.WebSocketResponse(
        heartbeat=HEARTBEAT_S, compress=False, max_msg_size=1024, timeout=CLOSE_TIMEOUT_S
    )
    listener = _Listener(socket, services, (uid, swarm), reached)
    unfollow = await services.follower.follow(uid, swarm, listener.enqueue)
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


class _Listener:
    """One WebSocket with its queue and position.

    It follows the swarm (uid, name) after the cursor `reached`. None means from now on.
    """

    def __init__(
        self,
        socket: web.WebSocketResponse,
        services: Services,
        source: tuple[str, str],
        reached: tuple[int, int] | None,
    ) -> None:
        self._socket, self._services, self._source = socket, services, source
        self._reached = reached or (0, 0)
        self._max_queued = services.options.listener_backlog
        # While the log is being read, new messages are in the log and need no queue.
        self._catching_up = reached is not None
        self._queue: deque[LogEntry] = deque()
        self._queued_bytes = 0
        # Messages to request with the next read of the log.
        self._page_size = 8
        self._has_more = asyncio.Event()
        # The bus failed while the log was read.
        self._cut_off = False
        self._behind: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ending: asyncio.Task[bool] | None = None

    def enqueue(self, entries: list[LogEntry]) -> None:
        """Queue new messages of the log."""
        if self._catching_up or self._behind.done():
            return
        self._queue.extend(entries)
        self._queued_bytes += sum(len(entry.data) for entry in entries)
        self._has_more.set()
        if len(self._queue) > self._max_queued or self._queued_bytes > BACKLOG_BYTES:
            self._behind.set_result(None)

    @property
    def _cursor(self) -> str:
        return "-".join(map(str, self._reached))

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
        """Ignore all messages of the listener. Returns when it disconnects."""
        async for _ in self._socket:
            pass

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
            entry = self._queue.popleft()
            self._queued_bytes -= len(entry.data)
            await self._send_entry(entry)

    async def _catch_up(self) -> None:
        """Read the log to its end, then once more with the queue open, which leaves no gap."""
        while await self._send_page():
            pass
        self._catching_up = False
        while await self._send_page():
            pass

    async def _send_page(self) -> bool:
        """Send the next page of the log and return whether there may be more."""
        uid, swarm = self._source
        limit = self._page_size
        entries = await read_log(
            self._services.line, uid, swarm, after=self._cursor, limit=limit, most_bytes=PAGE_BYTES
        )
        may_have_more = may_continue(entries, limit, PAGE_BYTES)
        if entries:
            # Request about as many as fit into PAGE_BYTES, so that few are read in vain.
            fitting = 1 + PAGE_BYTES * len(entries) // sum(len(one.data) for one in entries)
            self._page_size = min(PAGE_SIZE, 2 * limit, fitting)
        for entry in entries:
            await self._send_entry(entry)
        return may_have_more

    async def _send_entry(self, entry: LogEntry) -> None:
        if entry.place > self._reached:
            self._reached = entry.place
            await self._socket.send_frame(to_frame(entry), WSMsgType.TEXT)

    async def _drop(self) -> None:
        """Disconnect a slow listener. It gets the reason if it reads on soon."""
        self._services.traffic.dropped_listeners += 1
        log.warning(
            "listener_dropped",
            reason="too slow",
            backlog=len(self._queue),
            pipeline=self._source[0],
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


def to_frame(entry: LogEntry) -> bytes:
    """Return a message as the JSON that a listener receives."""
    return b'{"cursor":"%s","mid":"%s","message":%s}' % (
        entry.cursor.encode(),
        entry.mid.encode(),
        entry.data,
    )

"""The connection of the worker's data path: packed commands out, replies in, in order.

A call costs about 20 microseconds, and 100 with redis-py. Nothing is retried here: after a lost
reply only the caller knows how to find out whether the command ran.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import hiredis

from memrelay.bus.client.primary import DEMOTED, find_primary, is_primary, make_finder
from memrelay.bus.client.resp import Word, pack
from memrelay.bus.client.unreachable import make_unreachable
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusError, BusRefused, BusUnavailable

Push = Callable[[bytes, bytes], None]  # (channel, payload)
Skip = Callable[[bytes], bytes]  # received bytes -> the part that must be parsed

CONNECT_TIMEOUT_S = 5.0
# A silent TLS server would delay the close by half a minute.
CLOSE_TIMEOUT_S = 0.25
# Between two checks for silence: longer than any read blocks at the server.
CHECK_S = 2.5
# One silent check proves nothing: the process may have been stopped and continued.
SILENT_CHECKS = 3
PUSHES = (b"message", b"pmessage")
QUEUED = b"+QUEUED\r\n"
# Errors of a server that became a replica, or whose keys another node of the cluster has.
ELSEWHERE = ("READONLY", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN")
# hiredis moves the rest of its buffer after each reply, so the buffer is kept short.
FEED_BYTES = 8192
# Before CLIENT UNBLOCK is repeated because it arrived before the read that it should end.
UNBLOCK_AGAIN_S = 0.002


def fail(future: asyncio.Future[Any], error: BaseException) -> None:
    """Fail a future unless it is done, without a log line if it is never awaited."""
    if not future.done():
        future.set_exception(error)
        # Retrieving the exception keeps asyncio from logging it.
        future.exception()


class SilenceTimeout:
    """Gives up after 5 to 7.5 s in which replies were due and nothing was received.

    A network that is cut in two breaks no connection, so silence is the only sign. Set `received`
    when data arrives.

    - `is_waiting` returns whether replies are due.
    - `give_up` is called once with the seconds of silence.
    """

    def __init__(
        self,
        is_waiting: Callable[[], object],
        give_up: Callable[[float], None],
        check_s: float = CHECK_S,
    ) -> None:
        self._is_waiting, self._give_up, self._check_s = is_waiting, give_up, check_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._silent_checks = 0
        self.received = False

    def start(self) -> None:
        """Begin to watch, unless this is already watching."""
        if self._timer is None:
            self._silent_checks = 0
            self._timer = self._loop.call_later(self._check_s, self._check)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        self._timer = None
        if not self._is_waiting():
            return
        silent_checks = 0 if self.received else self._silent_checks + 1
        self.received = False
        if silent_checks == SILENT_CHECKS:
            self._give_up(self._check_s * SILENT_CHECKS)
            return
        self.start()
        self._silent_checks = silent_checks


class _Pending:
    """A run of replies for one caller, who gets the last reply or the first error."""

    __slots__ = ("error", "future", "left", "queued")

    def __init__(self, left: int, future: asyncio.Future[Any], queued: int) -> None:
        self.left, self.future, self.queued = left, future, queued
        self.error: hiredis.ReplyError | None = None


class Connection(asyncio.Protocol):
    """A connection for one event loop, made by `connect`.

    `on_push` receives messages of subscribed channels. `skip` takes received bytes at the
    beginning of a message, and returns the part that must be parsed. The future `closed` is done
    when the connection ends.
    """

    def __init__(self, on_push: Push | None, skip: Skip | None) -> None:
        self._reader = hiredis.Reader()
        self._pending: deque[_Pending] = deque()
        self._on_push, self._skip = on_push, skip or self._skip_queued
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._silence = SilenceTimeout(lambda: self._pending, self._give_up)
        self._fault = BusUnavailable("the connection to the server is not open")
        self._is_elsewhere = False
        self.closed: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the open socket."""
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Give each complete reply to its caller."""
        self._silence.received = True
        try:
            if not self._reader.has_data():
                data = self._skip(data)
            for start in range(0, len(data), FEED_BYTES):
                self._reader.feed(data, start, min(FEED_BYTES, len(data) - start))
                self._take_replies()
        except hiredis.ProtocolError as error:
            self._fail(BusUnavailable(f"the server does not speak RESP: {error}"))

    def _skip_queued(self, data: bytes) -> bytes:
        """Skip the QUEUED replies of a MULTI without parsing; most replies are of this kind."""
        first = self._pending[0] if self._pending else None
        if first is None or not first.queued or first.left < 2:
            return data
        start = 0
        if first.left == first.queued + 2 and data.startswith(b"+OK\r\n"):
            start, first.left = 5, first.left - 1
        count = min((len(data) - start) // len(QUEUED), first.left - 1)
        end = start + count * len(QUEUED)
        if data[start:end] != QUEUED * count:
            return data[start:]
        first.left -= count
        return data[end:]

    def _take_replies(self) -> None:
        gets, on_push, pending = self._reader.gets, self._on_push, self._pending
        while (reply := gets()) is not False:
            if on_push is not None and type(reply) is list and reply[0] in PUSHES:
                on_push(reply[-2], reply[-1])
                continue
            try:
                first = pending[0]
            except IndexError:
                # Such as "max number of clients reached", before the server closes the connection.
                self._fail(BusUnavailable(f"the server ends the connection: {reply}"))
                return
            first.left -= 1
            if type(reply) is hiredis.ReplyError:
                first.error = first.error or reply
                self._is_elsewhere = self._is_elsewhere or str(reply).startswith(ELSEWHERE)
            if not first.left:
                _settle(pending.popleft(), reply)
        if self._is_elsewhere and not pending:
            self._fail(BusUnavailable("the server is no longer the primary of these keys"))

    def connection_lost(self, error: Exception | None) -> None:
        """Fail all pending replies."""
        self._fail(BusUnavailable(f"the connection to the server broke: {error or 'closed'}"))

    def _give_up(self, silent_s: float) -> None:
        self._fail(BusUnavailable(f"the server has answered nothing for {silent_s:g} s"))

    def _fail(self, error: BusUnavailable) -> None:
        self._silence.stop()
        if not self.closed.done():
            self.closed.set_result(None)
            self._fault = error
        if self._transport is not None:
            self._transport.abort()
        while self._pending:
            fail(self._pending.popleft().future, error)

    def send(self, payload: bytes, replies: int = 1, queued: int = 0) -> asyncio.Future[Any]:
        """Send packed commands; the future gets the last of their `replies` or the first error.

        `queued` is the number of commands if the payload is one MULTI.
        """
        return self.send_together(payload, ((replies, queued),))[0]

    def send_together(
        self, payload: bytes, runs: Iterable[tuple[int, int]]
    ) -> list[asyncio.Future[Any]]:
        """Send several runs of packed commands in one write.

        Each run is (replies, queued), as for `send`, and has its own future.
        """
        futures = [self._expect(replies, queued) for replies, queued in runs]
        if not futures[0].done() and self._transport is not None:
            self._transport.write(payload)
        return futures

    def _expect(self, replies: int, queued: int) -> asyncio.Future[Any]:
        """Return a future for the replies, which has failed if the connection is closed."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.closed.done() or self._transport is None:
            fail(future, self._fault)
        else:
            self._pending.append(_Pending(replies, future, queued))
            self._silence.start()
        return future

    async def call(self, *words: Word) -> Any:
        """Run one command and return its reply. Raises BusRefused and BusUnavailable."""
        return await self.send(pack(*words))

    def abort(self) -> None:
        """Close the socket at once."""
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Close the socket and fail pending replies, within CLOSE_TIMEOUT_S."""
        if self._transport is not None:
            self._transport.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await asyncio.shield(self.closed)
        self.abort()
        await self.closed


def _settle(pending: _Pending, reply: Any) -> None:
    if pending.future.done():
        return
    if pending.error is not None:
        pending.future.set_exception(BusRefused(str(pending.error)))
    else:
        pending.future.set_result(reply)


async def connect(
    address: Address, on_push: Push | None = None, skip: Skip | None = None
) -> Connection:
    """Return an open, authenticated connection.

    Raises BusUnavailable, BusRefused, and BadAddress if a TLS file cannot be used.
    """
    connection = Connection(on_push, skip)
    with ExitStack() as undo:
        undo.callback(connection.abort)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await _open_socket(connection, address)
                await _authenticate(connection, address)
        except (OSError, TimeoutError) as error:
            reason = str(error) or "timed out"
            raise make_unreachable(address, reason + address.explain_tls(reason)) from error
        undo.pop_all()
    return connection


async def _open_socket(connection: Connection, address: Address) -> None:
    loop = asyncio.get_running_loop()
    if address.path:
        await loop.create_unix_connection(lambda: connection, address.path)
    else:
        host, port = address.host, address.port
        if address.watchers:
            finder = make_finder(address)
            host, port = await find_primary(finder)
        # Made for each connection, so that renewed TLS files are used.
        context = address.make_tls_context() if address.tls else None
        await loop.create_connection(lambda: connection, host, port, ssl=context)
        if address.watchers and not finder.add(connection, (host, port)):
            raise BusUnavailable(DEMOTED)


async def _authenticate(connection: Connection, address: Address) -> None:
    # A user may have no password.
    if address.username or address.password:
        user = (address.username,) if address.username else ()
        await connection.call("AUTH", *user, address.password)
    if address.database:
        await connection.call("SELECT", address.database)
    if address.watchers and not is_primary(await connection.call("ROLE")):
        raise BusUnavailable(DEMOTED)


class BlockingReads:
    """Reads that block at the server, and that can be ended early over another connection.

    `blocking` serves only these reads, one at a time. `control` sends CLIENT UNBLOCK.
    """

    def __init__(self, blocking: Connection, control: Connection) -> None:
        self._blocking, self._control = blocking, control
        self._client_id = 0  # of `blocking`, once it is known
        self._read_number = 0
        self._is_reading = False

    async def read(self, command: bytes) -> Any:
        """Return the reply to a packed command with BLOCK, None if it timed out or was ended."""
        self._read_number += 1
        self._is_reading = True
        try:
            if not self._client_id:
                self._client_id = await self._blocking.call("CLIENT", "ID")
            return await self._blocking.send(command)
        finally:
            self._is_reading = False

    def unblock(self) -> None:
        """End the read under way, if there is one."""
        if self._is_reading:
            future = self._control.send(pack("CLIENT", "UNBLOCK", self._client_id))
            future.add_done_callback(partial(self._check_unblocked, self._read_number))

    def _check_unblocked(self, number: int, future: asyncio.Future[Any]) -> None:
        """Repeat the unblocking if the server received it before the read."""
        try:
            came_early = future.result() == 0
        except (BusError, asyncio.CancelledError):
            return  # the connection broke, and the read fails too
        if came_early and self._is_reading and number == self._read_number:
            asyncio.get_running_loop().call_later(UNBLOCK_AGAIN_S, self._unblock_again, number)

    def _unblock_again(self, number: int) -> None:
        if number == self._read_number:
            self.unblock()

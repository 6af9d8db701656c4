"""One connection to the server: bytes out, replies in, in the order in which they were asked for.

A general client costs about 10 microseconds a command and 20 MB of memory; this is some hundred
lines over hiredis and serves
every use that the product has. Nothing is retried here: after a lost reply only the caller knows
what to look for.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import hiredis

from memrelay.bus.client.resp import Word, pack
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BadAddress, BusError, BusRefused, BusUnavailable

# Futures that somebody may have stopped waiting for.


def fail(future: asyncio.Future[Any], error: BaseException) -> None:
    """Gives it the error, where it has no result yet; who has given up need not be told in the
    log."""
    if not future.done():
        future.set_exception(error)
        future.exception()  # seen


# SilenceTimeout with a server that is there and says nothing: a network that is cut in two breaks no
# connection.

LOOK_S = 2.5  # longer than any read waits at the server
SILENT_LOOKS = 3  # a single one may be late, as after this process was stopped and continued


class SilenceTimeout:
    """Gives up after 5 to 7.5 s in which something was awaited and nothing was heard."""

    def __init__(
        self, waits: Callable[[], object], give_up: Callable[[float], None], look_s: float = LOOK_S
    ) -> None:
        """`waits` tells whether anything is awaited; `give_up` gets the seconds of silence,
        once."""
        self._waits, self._give_up, self._look_s = waits, give_up, look_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._silent = 0
        self.heard = False  # set by whoever hears something

    def begin(self) -> None:
        """Something is awaited from now on."""
        if self._timer is None:
            self._silent = 0
            self._timer = self._loop.call_later(self._look_s, self._look)

    def end(self) -> None:
        """Nothing is awaited any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        if not self._waits():
            return
        silent = 0 if self.heard else self._silent + 1
        self.heard = False
        if silent == SILENT_LOOKS:
            self._give_up(self._look_s * SILENT_LOOKS)
            return
        self.begin()
        self._silent = silent


Push = Callable[[bytes, bytes], None]  # (channel, payload)
Skip = Callable[[bytes], bytes]  # what of it has to be read
CONNECT_TIMEOUT_S = 5.0
# what TLS's farewell may take: a server that is silent would be waited for, half a minute for each
# connection
CLOSE_S = 0.25
PUSHES = (b"message", b"pmessage")
QUEUED = b"+QUEUED\r\n"
DEMOTED = "READONLY"  # how the server refuses a write that has become another's replica
FEED_BYTES = (
    8192  # hiredis moves what is left in its buffer after each reply, so the buffer is kept short
)


class _Awaited:
    """A run of replies that one caller waits for; it gets the last, or the first error."""

    __slots__ = ("error", "future", "left", "queued")

    def __init__(self, left: int, future: asyncio.Future[Any], queued: int) -> None:
        self.left, self.future, self.queued = left, future, queued
        self.error: hiredis.ReplyError | None = None


class Connection(asyncio.Protocol):
    """A connection; make one with `connect`. Not for use by several event loops."""

    def __init__(self, on_push: Push | None, skip: Skip | None) -> None:
        """`on_push` receives what is published on the channels that this connection subscribes to.

        `skip` is asked at the beginning of a message what has to be read of what came.
        """
        self._reader = hiredis.Reader()
        self._awaited: deque[_Awaited] = deque()
        self._tick: list[bytes] = []  # commands that leave at the end of this tick
        self._on_push, self._skip = on_push, skip or self._skip_queued
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._patience = SilenceTimeout(lambda: self._awaited, self._give_up)
        self._fault = BusUnavailable(
            "the connection to the server is not open"
        )  # or why it is no more
        self.demoted = (
            False  # it leads to a replica: another connection may lead to who takes writes now
        )
        self.closed: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's call: the socket is open."""
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """asyncio's call: hands each complete reply to who waits for it."""
        self._patience.heard = True
        try:
            if not self._reader.has_data():
                data = self._skip(data)
            for start in range(0, len(data), FEED_BYTES):
                self._reader.feed(data, start, min(FEED_BYTES, len(data) - start))
                self._take_replies()
        except hiredis.ProtocolError as error:
            self._fail(BusUnavailable(f"the server does not speak RESP: {error}"))

    def _skip_queued(self, data: bytes) -> bytes:
        """`data` from where it says more than that commands of a MULTI were queued, which most of
        all replies do."""
        first = self._awaited[0] if self._awaited else None
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
        """Every command of a MULTI has a reply of its own, so they are counted in place."""
        gets, on_push, awaited = self._reader.gets, self._on_push, self._awaited
        while (reply := gets()) is not False:
            if on_push is not None and type(reply) is list and reply[0] in PUSHES:
                on_push(reply[-2], reply[-1])
                continue
            try:
                first = awaited[0]
            except (
                IndexError
            ):  # unasked, before it closes the connection, as where it has too many of them
                self._fail(BusUnavailable(f"the server ends the connection: {reply}"))
                return
            first.left -= 1
            if type(reply) is hiredis.ReplyError:
                first.error = first.error or reply
                self.demoted = self.demoted or str(reply).startswith(DEMOTED)
            if not first.left:
                _settle(awaited.popleft(), reply)
        if self.demoted and not awaited:
            self._fail(BusUnavailable("the server has become a replica, and takes no writes"))

    def connection_lost(self, error: Exception | None) -> None:
        """asyncio's call: everybody who waits learns that the answer is lost."""
        self._fail(BusUnavailable(f"the connection to the server broke: {error or 'closed'}"))

    def _give_up(self, silent_s: float) -> None:
        self._fail(BusUnavailable(f"the server has answered nothing for {silent_s:g} s"))

    def _fail(self, error: BusUnavailable) -> None:
        self._patience.end()
        if not self.closed.done():
            self.closed.set_result(None)
            self._fault = error
        if self._transport is not None:
            self._transport.abort()
        while self._awaited:
            fail(self._awaited.popleft().future, error)

    def send(self, payload: bytes, replies: int = 1, queued: int = 0) -> asyncio.Future[Any]:
        """Sends packed commands; the future gets the last of their `replies`, or the first error
        among them.

        `queued`: the payload is one MULTI with so many commands.
        """
        return self.send_together(payload, ((replies, queued),))[0]

    def send_together(
        self, payload: bytes, runs: Iterable[tuple[int, int]]
    ) -> list[asyncio.Future[Any]]:
        """Several such runs of packed commands in one write, each (replies, queued) with a future
        of its own."""
        if self._tick:
            self._send_tick()
        futures = [self._expect(replies, queued) for replies, queued in runs]
        if not futures[0].done() and self._transport is not None:
            self._transport.write(payload)
        return futures

    def send_soon(self, command: bytes) -> asyncio.Future[Any]:
        """Sends one packed command, in one write with all others of this tick of the event loop;
        the future gets its reply."""
        future = self._expect(1, 0)
        if not future.done():
            if not self._tick:
                self._loop.call_soon(self._send_tick)
            self._tick.append(command)
        return future

    def _send_tick(self) -> None:
        tick, self._tick = self._tick, []
        if tick and self._transport is not None and not self.closed.done():
            self._transport.write(b"".join(tick))

    def _expect(self, replies: int, queued: int) -> asyncio.Future[Any]:
        """The future of what is about to be sent; it has failed already where the connection is
        closed."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.closed.done() or self._transport is None:
            fail(future, self._fault)
        else:
            self._awaited.append(_Awaited(replies, future, queued))
            self._patience.begin()
        return future

    async def call(self, *words: Word) -> Any:
        """One command and its reply; raises BusRefused or BusUnavailable."""
        return await self.send(pack(*words))

    def abort(self) -> None:
        """Closes the socket at once."""
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Closes the socket; whoever still waits gets BusUnavailable. A server that is silent does
        not hold it up."""
        if self._transport is not None:
            self._transport.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await asyncio.shield(self.closed)
        self.abort()
        await self.closed


def _settle(awaited: _Awaited, reply: Any) -> None:
    if awaited.future.done():
        return  # the caller has given up
    if awaited.error is not None:
        awaited.future.set_exception(BusRefused(str(awaited.error)))
    else:
        awaited.future.set_result(reply)


async def connect(
    address: Address, on_push: Push | None = None, skip: Skip | None = None
) -> Connection:
    """An open, authenticated connection; raises BusUnavailable, BusRefused, or BadAddress where TLS
    lacks a file."""
    connection = Connection(on_push, skip)
    with ExitStack() as undo:
        undo.callback(connection.abort)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await _open(connection, address)
                await _introduce(connection, address)
        except (OSError, TimeoutError) as error:
            raise BusUnavailable(
                f"no server answers at {address}: {str(error) or 'timed out'}"
            ) from error
        undo.pop_all()
    return connection


async def _open(connection: Connection, address: Address) -> None:
    loop = asyncio.get_running_loop()
    if address.path:
        await loop.create_unix_connection(lambda: connection, address.path)
    else:
        secured = _secured(address) if address.tls else None
        await loop.create_connection(lambda: connection, address.host, address.port, ssl=secured)


def _secured(address: Address) -> ssl.SSLContext:
    """Read anew for each connection, so that files that were renewed count. Raises BadAddress."""
    files = ", ".join(filter(None, (address.ca, address.certificate, address.key)))
    try:
        context = ssl.create_default_context(cafile=address.ca or None)
        if (
            address.certificate or address.key
        ):  # without a phrase the library would ask for one at the terminal
            context.load_cert_chain(address.certificate, address.key or None, password="")
    except (OSError, ValueError) as error:
        raise BadAddress(
            f"bus.ca, bus.certificate or bus.key cannot be used ({files}): {error}; they must be PEM files that "
            "this user may read, the key without a phrase"
        ) from error
    return context


async def _introduce(connection: Connection, address: Address) -> None:
    if address.username or address.password:  # a user may have no password
        user = (address.username,) if address.username else ()
        await connection.call("AUTH", *user, address.password)
    if address.database:
        await connection.call("SELECT", address.database)


# Reads that wait at the server, and calling them back when there is something else to read.

AGAIN_S = 0.002  # before a call is repeated that came to the server before the read did


class BlockingReads:
    """One read at a time on a connection of its own; over another one it can be called back, and
    then returns nothing."""

    def __init__(self, blocking: Connection, control: Connection) -> None:
        """`blocking` serves the reads alone; `control` is shared with whatever is rare."""
        self._blocking, self._control = blocking, control
        self._client_id = 0  # of `blocking`, once it is known
        self._number = 0  # of the read
        self._waits = False

    async def read(self, command: bytes) -> Any:
        """The reply to a packed command with BLOCK; None when the time is over or it was called
        back."""
        self._number += 1
        self._waits = True
        try:
            if not self._client_id:
                self._client_id = await self._blocking.call("CLIENT", "ID")
            return await self._blocking.send(command)
        finally:
            self._waits = False

    def call_back(self) -> None:
        """Cuts the read under way short; without one nothing happens."""
        if self._waits:
            future = self._control.send(pack("CLIENT", "UNBLOCK", self._client_id))
            future.add_done_callback(partial(self._called, self._number))

    def _called(self, number: int, future: asyncio.Future[Any]) -> None:
        """The two connections are not in step: the server may have got the call before the read
        that it was for."""
        try:
            too_early = future.result() == 0
        except (BusError, asyncio.CancelledError):
            return  # the connection broke, and the read with it
        if too_early and self._waits and number == self._number:
            asyncio.get_running_loop().call_later(AGAIN_S, self._call_again, number)

    def _call_again(self, number: int) -> None:
        if number == self._number:
            self.call_back()


# Scripts that the server runs, in Lua: each looks and changes at once.

# At the beginning of a script: `now` is the server's time, Unix ms.
NOW = "local now = redis.call('TIME')\nnow = now[1] * 1000 + math.floor(now[2] / 1000)\n"


async def run_script(
    connection: Connection, script: str, keys: Sequence[str], *arguments: Word
) -> Any:
    """What a script returns. Raises BusRefused or BusUnavailable."""
    return await connection.call("EVAL", script, len(keys), *keys, *arguments)

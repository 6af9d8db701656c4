"""Sends commands only while their worker is not fenced: one MULTI at a time watches the fence.

An EXEC ends its WATCH, so the next WATCH leaves in the same write. Commands that arrive meanwhile
wait for its answer and leave together. This adds no round trip, and many groups share one.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import hiredis

from memrelay.bus.client.connection import Connection, fail
from memrelay.bus.client.resp import EXEC, MULTI, pack
from memrelay.bus.errors import BusError, Fenced
from memrelay.logs import get_logger

log = get_logger(__name__)
# The largest MULTI, unless a single piece is larger.
MOST_BYTES = 256 << 10


class _Piece(NamedTuple):
    commands: Sequence[bytes]
    replies: int
    future: asyncio.Future[list[Any]]

    @property
    def size(self) -> int:
        return sum(map(len, self.commands))


class FencedWriter:
    """Sends over a dedicated connection while the key `fence` exists."""

    def __init__(self, connection: Connection, fence: str) -> None:
        self._connection = connection
        self._watch = pack("WATCH", fence) + pack("EXISTS", fence)
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Piece] = deque()
        self._under_way: list[_Piece] = []
        self._is_busy = False  # until the last MULTI and the WATCH after it are answered
        self._fault: BusError | None = None

    async def open(self) -> None:
        """Watch the fence for the first time. Raises Fenced."""
        if not await self._connection.send(self._watch, 2):
            raise Fenced("another worker fenced this one; restarting")

    def send(self, commands: Sequence[bytes], count: int) -> asyncio.Future[list[Any]]:
        """Send `count` packed commands, all or none; the future gets their replies.

        `commands` may be cut into pieces anywhere. The future gets Fenced if another worker took
        over; then no command ran. If the server refuses one command, its reply is the error.
        """
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        if self._fault is not None:
            fail(future, self._fault)
            return future
        self._waiting.append(_Piece(commands, count, future))
        if not self._is_busy:
            self._send_waiting()
        return future

    def _send_waiting(self) -> None:
        """Send one MULTI with the waiting pieces, up to MOST_BYTES."""
        pieces = [self._waiting.popleft()]
        size = pieces[0].size if self._waiting else 0
        while self._waiting and (size := size + self._waiting[0].size) <= MOST_BYTES:
            pieces.append(self._waiting.popleft())
        count = sum(piece.replies for piece in pieces)
        self._under_way, self._is_busy = pieces, True
        commands = [MULTI]
        for piece in pieces:
            commands += piece.commands
        payload = b"".join([*commands, EXEC, self._watch])
        done, watched = self._connection.send_together(payload, ((count + 2, count), (2, 0)))
        done.add_done_callback(self._on_exec)
        watched.add_done_callback(self._on_watch)

    def _on_exec(self, done: asyncio.Future[Any]) -> None:
        """Pass on the replies; EXEC returns None if the fence was touched."""
        error = done.exception()
        if error is None and done.result() is None:
            error = self._fault = Fenced("another worker took over, so nothing was sent")
        at = 0
        for piece in self._under_way:
            if error is not None:
                fail(piece.future, error)
            elif not piece.future.done():
                piece.future.set_result(done.result()[at : at + piece.replies])
            at += piece.replies
        self._under_way = []

    def _on_watch(self, watched: asyncio.Future[Any]) -> None:
        """Send the waiting pieces, now that the fence is watched again."""
        self._is_busy, error = False, watched.exception()
        if isinstance(error, BusError):
            self._fault = error
        elif not watched.result():
            self._fault = self._fault or Fenced("another worker fenced this one")
        if self._fault is not None:
            while self._waiting:
                fail(self._waiting.popleft().future, self._fault)
        elif self._waiting:
            self._send_waiting()


def log_refusals(replies: Collection[Any], pipelines: Sequence[str]) -> bool:
    """Log the first command of a MULTI that the server refused, and how many there were.

    The other commands of the MULTI ran. Return whether any was refused.
    """
    # Checking each reply by itself takes three times as long.
    if hiredis.ReplyError not in set(map(type, replies)):
        return False
    refused = [str(reply) for reply in replies if isinstance(reply, hiredis.ReplyError)]
    log.error(
        "server_refused_commands",
        pipelines=pipelines,
        count=len(refused),
        reason=refused[0],
        remedy="run `memrelay doctor`, which names the key or the missing permission",
    )
    return True

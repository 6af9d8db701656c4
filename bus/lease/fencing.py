"""Commands that leave only while their worker is not fenced: one MULTI at a time, each watching the
fence.

An EXEC ends its WATCH, so the next one leaves in the same write, and what comes meanwhile waits for
its answer and then leaves
together: no round trip is added, and many groups share one.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import hiredis
import structlog

from memrelay.bus.client.connection import Connection, fail
from memrelay.bus.client.resp import EXEC, MULTI, pack
from memrelay.bus.errors import BusError, Fenced

MOST_BYTES = 256 << 10  # of what waits leave in one MULTI, or one piece that is larger


class _Piece(NamedTuple):
    commands: Sequence[bytes]
    replies: int
    future: asyncio.Future[list[Any]]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(map(len, self.commands))


class FencedWriter:
    """Sends over a connection of its own."""

    def __init__(self, connection: Connection, fence: str) -> None:
        """`fence` is the key that must be there."""
        self._connection = connection
        self._watch = pack("WATCH", fence) + pack("EXISTS", fence)
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Piece] = deque()
        self._under_way: list[_Piece] = []
        self._busy = False  # until the answer to the last MULTI and to the watch after it are here
        self._fault: BusError | None = None

    async def open(self) -> None:
        """Watches for the first time. Raises Fenced."""
        if not await self._connection.send(self._watch, 2):
            raise Fenced("this worker is fenced; it begins anew")

    def send(self, commands: Sequence[bytes], count: int) -> asyncio.Future[list[Any]]:
        """Sends `count` packed commands, cut anywhere, all or none; the future gets their replies.

        It gets Fenced where another worker took over: none was done. A refusal of one command
        stands among the replies.
        """
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        if self._fault is not None:
            fail(future, self._fault)
            return future
        self._waiting.append(_Piece(commands, count, future))
        if not self._busy:
            self._leave()
        return future

    def _leave(self) -> None:
        """One MULTI with what waits."""
        pieces = [self._waiting.popleft()]
        size = pieces[0].size if self._waiting else 0
        while self._waiting and (size := size + self._waiting[0].size) <= MOST_BYTES:
            pieces.append(self._waiting.popleft())
        self._under_way, self._busy, count = pieces, True, sum(piece.replies for piece in pieces)
        commands = [MULTI]
        for piece in pieces:
            commands += piece.commands
        payload = b"".join([*commands, EXEC, self._watch])
        done, watched = self._connection.send_together(payload, ((count + 2, count), (2, 0)))
        done.add_done_callback(self._done)
        watched.add_done_callback(self._watched)

    def _done(self, done: asyncio.Future[Any]) -> None:
        """The answer to EXEC: nothing, where the fence was touched."""
        error = done.exception()
        if error is None and done.result() is None:
            error = self._fault = Fenced(
                "another worker took over; what this one wanted to send has not left"
            )
        at = 0
        for piece in self._under_way:
            if error is not None:
                fail(piece.future, error)
            elif not piece.future.done():
                piece.future.set_result(done.result()[at : at + piece.replies])
            at += piece.replies
        self._under_way = []

    def _watched(self, watched: asyncio.Future[Any]) -> None:
        """The fence is watched again, and stands or not; only now something more may leave."""
        self._busy, error = False, watched.exception()
        if isinstance(error, BusError):
            self._fault = error
        elif not watched.result():
            self._fault = self._fault or Fenced("this worker was taken for dead")
        if self._fault is not None:
            while self._waiting:
                fail(self._waiting.popleft().future, self._fault)
        elif self._waiting:
            self._leave()


# Commands that the server refused inside a MULTI, as on a key of another type: the rest of it was
# done all the same.

log = structlog.stdlib.get_logger(__name__)


def log_refusals(replies: Collection[Any], pipelines: Sequence[str]) -> bool:
    """Tells of the first, and how many there were. Whether there was any."""
    if hiredis.ReplyError in set(
        map(type, replies)
    ):  # asked of each by itself it costs three times as much
        refused = [str(reply) for reply in replies if isinstance(reply, hiredis.ReplyError)]
        log.error(
            "server_refused_commands",
            pipelines=pipelines,
            count=len(refused),
            reason=refused[0],
            remedy="`memrelay doctor` names the key or the right",
        )
        return True
    return False

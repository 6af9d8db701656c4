"""A proxy between a program and its Redis server that loses replies: it drops one reply and cuts
the connection, or holds everything back.

It understands enough RESP2 to match replies to commands.
"""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CRLF = b"\r\n"
ASLEEP = "SUBSCRIBE"  # replies arrive unrequested on this connection, so they pass unchanged
CHUNK = 1 << 16


class Proxy:
    """Listens on a Unix socket and forwards to another, in its own thread. Use it as a context."""

    def __init__(self, server: Path, socket: Path) -> None:
        """`server` is the socket of the server, `socket` the one of the proxy."""
        self.socket = socket
        self.passed: Counter[str] = Counter()  # commands whose reply passed
        self.dropped: list[str] = []  # commands whose reply was dropped
        self._server, self._links = server, set[_Link]()
        self._wanted: dict[
            bool, str
        ] = {}  # whether it is a reply, or the command -> the next one to lose
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self._open: asyncio.Event
        self._listening: asyncio.Server

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._start())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def drop_reply(self, command: str) -> None:
        """Drop the next reply to such a command and cut its connection.

        A command within a MULTI has the prefix "queued "; its reply is QUEUED.
        """
        self._wanted[True] = command

    def drop_command(self, command: str) -> None:
        """Drop the next such command before it reaches the server, and cut its connection."""
        self._wanted[False] = command

    def cut(self) -> None:
        """Cut every connection; new ones pass."""
        self._do(self._cut())

    def hold(self) -> None:
        """Forward nothing in either direction without cutting: a network partition. New
        connections hang too.
        """
        self._loop.call_soon_threadsafe(lambda: self._open.clear())

    def let_go(self) -> None:
        """Forward what was held back, and everything after it."""
        self._loop.call_soon_threadsafe(lambda: self._open.set())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _start(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._listening = await asyncio.start_unix_server(self._pass_on, self.socket)

    async def _end(self) -> None:
        self._listening.close()
        await self._cut()

    async def _cut(self) -> None:
        for link in list(self._links):
            link.cut()
        while self._links:
            await asyncio.sleep(0.01)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one client connection."""
        try:
            there = await asyncio.open_unix_connection(self._server)
        except OSError:  # the server is down
            writer.close()
            return
        link = _Link(self._judge)
        self._links.add(link)
        link.pumps = [
            asyncio.ensure_future(self._pump(reader, there[1], link.ask)),
            asyncio.ensure_future(self._pump(there[0], writer, link.answer)),
        ]
        await asyncio.wait(link.pumps, return_when=asyncio.FIRST_COMPLETED)
        link.cut()
        await asyncio.wait(link.pumps)
        for end in (writer, there[1]):
            end.transport.abort()
        self._links.discard(link)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        see: Callable[[bytes], bytes],
    ) -> None:
        """Forward until either side ends, or `see` cuts the link."""
        try:
            while data := await reader.read(CHUNK):
                await self._open.wait()
                writer.write(see(data))
                await writer.drain()
        except _Cut as cut:
            writer.write(cut.rest)
            await asyncio.sleep(0.05)  # let the data leave before the hard cut
        except (OSError, asyncio.CancelledError):
            return

    def _judge(self, command: str, answered: bool) -> bool:
        """Return whether to lose a command or its reply; the first match is lost."""
        if command != self._wanted.get(answered):
            self.passed[command] += answered
            return False
        del self._wanted[answered]
        self.dropped.append(command)
        return True


class _Cut(Exception):
    """Ends a link after the remaining data has passed."""

    def __init__(self, rest: bytes) -> None:
        super().__init__()
        self.rest = rest


class _Link:
    """One connection, with its unanswered commands."""

    def __init__(self, judge: Callable[[str, bool], bool]) -> None:
        self._judge = judge
        self._asked: deque[str] = deque()
        self._questions, self._answers = b"", b""
        self._passive = self._queues = False
        self.pumps: list[asyncio.Future[None]] = []

    def cut(self) -> None:
        for pump in self.pumps:
            pump.cancel()

    def ask(self, data: bytes) -> bytes:
        """Take bytes for the server: whole commands."""
        if self._passive:
            return data
        self._questions += data
        at = 0
        while (end := end_of(self._questions, at)) is not None:
            name = self._name(self._questions[at:end])
            if self._judge(name, False):
                raise _Cut(self._questions[:at])
            self._asked.append(name)
            at = end
        self._questions, whole = self._questions[at:], self._questions[:at]
        return whole

    def _name(self, command: bytes) -> str:
        name = command.split(CRLF, 3)[2].decode().upper()
        self._passive = self._passive or name == ASLEEP
        within = self._queues and name != "EXEC"
        self._queues = name == "MULTI" or within
        return f"queued {name}" if within else name

    def answer(self, data: bytes) -> bytes:
        """Take bytes for the client: whole replies."""
        if self._passive:
            return data
        self._answers += data
        at = 0
        while (end := end_of(self._answers, at)) is not None:
            if self._judge(self._asked.popleft(), True):
                raise _Cut(self._answers[:at])
            at = end
        self._answers, whole = self._answers[at:], self._answers[:at]
        return whole


def end_of(data: bytes, start: int) -> int | None:
    """Return the end of the RESP2 value that begins at `start`; None if it is incomplete."""
    left, at = 1, start
    while left:
        line_end = data.find(CRLF, at)
        if line_end < 0:
            return None
        kind, count = data[at : at + 1], data[at + 1 : line_end]
        at, left = line_end + 2, left - 1
        if kind == b"$" and count != b"-1":
            at += int(count) + 2
        elif kind == b"*" and count != b"-1":
            left += int(count)
        if at > len(data):
            return None
    return at

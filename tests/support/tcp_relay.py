"""A relay between programs and a TCP server, whose connections can be cut."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

CHUNK = 1 << 16


class TcpRelay:
    """Listens on a port of loopback and forwards to another, in its own thread, as a context.

    `edit` changes the data that it returns to programs.
    """

    def __init__(self, to_port: int, edit: Callable[[bytes], bytes] = bytes) -> None:
        self._to_port, self.port, self._edit = to_port, 0, edit
        self._writers = set[asyncio.StreamWriter]()
        self._tasks = set[asyncio.Task[None]]()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay")

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Cut every connection: replies on their way are lost. New connections pass."""
        self._loop.call_soon_threadsafe(self._cut)

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._server.close()
        self._cut()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError):
                there = await asyncio.open_connection("127.0.0.1", self._to_port)
                self._writers |= {writer, there[1]}
                await asyncio.gather(
                    _forward(reader, there[1], bytes), _forward(there[0], writer, self._edit)
                )
                self._writers -= {writer, there[1]}
        finally:
            writer.close()
            self._tasks.discard(task)


async def _forward(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, edit: Callable[[bytes], bytes]
) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(edit(data))
            await writer.drain()
    writer.close()

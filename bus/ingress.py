"""The way in for other processes than the owner: appends to the inputs, all of one tick in one write."""
import asyncio
from functools import partial
from typing import Any, Self

from bus.address import Address
from bus.entry import NewEntry
from bus.errors import BusBusy, BusUnavailable
from bus.line import Line

MOST_WAITING = 10_000   # appends that may wait for the server; past it whoever comes is turned away


class Ingress:
    """Appends entries. What arrives in one tick of the event loop shares a write, and at the server one sync to disk."""

    def __init__(self, address: Address, most_waiting: int = MOST_WAITING) -> None:
        """Use it as an asynchronous context."""
        self._line = Line(address)
        self._most = most_waiting
        self._waiting = 0
        self._tick: list[tuple[bytes, asyncio.Future[str]]] = []
        self._loop = asyncio.get_running_loop()

    async def __aenter__(self) -> Self:
        """Nothing is opened yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the connection."""
        await self._line.__aexit__()

    async def append(self, entry: NewEntry) -> str:
        """Appends an entry, and returns its id once the server has it.

        Raises BusBusy where too many wait already: nothing is appended. Raises BusRefused, or BusUnavailable: then it may have
        been appended all the same, and a producer id makes it safe to try again.
        """
        if self._waiting >= self._most:
            raise BusBusy(f"{self._waiting} messages wait for the server already; try again in a second")
        if self._line.ready is None:
            await self._line.open()
        if not self._tick:
            self._loop.call_soon(self._flush)
        future: asyncio.Future[str] = self._loop.create_future()
        self._tick.append((entry.pack(), future))
        self._waiting += 1
        try:
            return await future
        finally:
            self._waiting -= 1

    def _flush(self) -> None:
        tick, self._tick = self._tick, []
        connection = self._line.ready
        if connection is None:
            for _, future in tick:
                _fail(future, BusUnavailable("the connection to the server broke"))
            return
        for sent, (_, future) in zip(connection.send_each([command for command, _ in tick]), tick, strict=True):
            sent.add_done_callback(partial(_pass_on, future))


def _pass_on(future: asyncio.Future[str], sent: asyncio.Future[Any]) -> None:
    error = sent.exception()
    if error is not None:
        _fail(future, error)
    elif not future.done():
        future.set_result(sent.result().decode())


def _fail(future: asyncio.Future[str], error: BaseException) -> None:
    if not future.done():   # the caller may have given up
        future.set_exception(error)

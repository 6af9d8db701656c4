"""A connection that comes back: opened when it is first needed, and again when it was lost."""

import asyncio
from collections.abc import Callable
from typing import Any, Self

from memrelay.bus.client.connection import Connection, Push, connect
from memrelay.bus.client.resp import Word
from memrelay.bus.client.url import Address


class ReconnectingConnection:
    """For processes that outlive the server. What was under way when it broke fails and is never
    repeated here.

    Use it as an asynchronous context. Everybody who needs it while it is being opened waits for the
    same attempt.
    """

    def __init__(
        self,
        address: Address,
        on_push: Push | None = None,
        on_loss: Callable[[], None] | None = None,
    ) -> None:
        """`on_push` as `Connection` takes it; `on_loss` is called when a connection has broken."""
        self._address, self._on_push, self._on_loss = address, on_push, on_loss
        self._opening: asyncio.Task[Connection] | None = None
        self._connection: Connection | None = None  # the last one that was opened

    async def __aenter__(self) -> Self:
        """Nothing is opened yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the connection, or gives up opening it."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        if self._connection is not None:
            await self._connection.close()

    @property
    def ready(self) -> Connection | None:
        """The open connection; None while there is none, or it leads to what is only a replica by
        now."""
        connection = self._connection
        return (
            None
            if connection is None or connection.demoted or connection.closed.done()
            else connection
        )

    async def open(self) -> Connection:
        """An open connection. Raises BusUnavailable or BusRefused."""
        connection = self.ready
        if connection is not None:
            return connection
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._connect())
            self._opening.add_done_callback(_forget_fault)
        return await asyncio.shield(self._opening)

    async def call(self, *words: Word) -> Any:
        """One command and its reply. Raises BusRefused or BusUnavailable."""
        return await (await self.open()).call(*words)

    async def _connect(self) -> Connection:
        connection = await connect(self._address, self._on_push)
        if self._on_loss is not None:
            on_loss = self._on_loss
            connection.closed.add_done_callback(lambda _: on_loss())
        self._connection = connection
        return connection


def _forget_fault(opening: asyncio.Task[Connection]) -> None:
    """Whoever waited for it was told; where all have gone meanwhile, nobody is to be."""
    if not opening.cancelled():
        opening.exception()


# How long to wait before what has ended is begun again: the embedded server, a worker's
# session.


class Backoff:
    """Delays that double from `first_s` to `most_s`, and begin anew after a life of
    `healthy_after_s`."""

    def __init__(self, *, first_s: float, most_s: float, healthy_after_s: float) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._healthy_after_s = healthy_after_s
        self._next_s = first_s

    def delay_s(self, life_s: float) -> float:
        """The delay after a life of `life_s` seconds, 0 where it did not come up at all."""
        if life_s >= self._healthy_after_s:
            self._next_s = self._first_s
        delay = self._next_s
        self._next_s = min(delay * 2, self._most_s)
        return delay

"""The way in for other processes than the owner: appends to the inputs, all of one tick in one write."""
from typing import Self

from bus.address import Address
from bus.entry import NewEntry
from bus.errors import BusBusy
from bus.line import Line

MOST_WAITING = 10_000   # appends that may wait for the server; past it whoever comes is turned away


class Ingress:
    """Appends entries. What arrives in one tick of the event loop shares a write, and at the server one sync to disk."""

    def __init__(self, address: Address, most_waiting: int = MOST_WAITING) -> None:
        """Use it as an asynchronous context."""
        self._line = Line(address)
        self._most = most_waiting
        self._waiting = 0

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
        self._waiting += 1
        try:
            connection = self._line.ready or await self._line.open()
            ident: bytes = await connection.send_soon(entry.pack())
        finally:
            self._waiting -= 1
        return ident.decode()

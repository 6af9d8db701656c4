"""The way in for other processes than the owner: appends to the inputs, all of one tick in one
write."""

from typing import Self

from bus.address import Address
from bus.backlog import Backlog, IngressLimits
from bus.connection import Connection
from bus.entry import NewEntry
from bus.errors import BusBusy
from bus.line import Line
from bus.resp import pack
from bus.roll import pauses_of, read_roll


class Ingress:
    """Appends entries. What arrives in one tick of the event loop shares a write, and at the server
    one sync to disk."""

    def __init__(self, address: Address, limits: IngressLimits | None = None) -> None:
        """Use it as an asynchronous context."""
        self._line, self._limits = Line(address), limits or IngressLimits()
        self._waiting = self._waiting_bytes = 0
        self._backlogs: dict[str, Backlog] = {}  # by pipeline

    async def __aenter__(self) -> Self:
        """Nothing is opened yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the connection."""
        await self._line.__aexit__()

    async def append(self, entry: NewEntry) -> str:
        """Appends an entry, and returns its id once the server has it.

        Raises BusBusy where too much waits already, for the server or in the pipeline's input:
        nothing is appended. Raises
        BusRefused, or BusUnavailable: then it may have been appended all the same, and a producer
        id makes it safe to try
        again.
        """
        size, limits = len(entry.data), self._limits
        if self._waiting >= limits.waiting or self._waiting_bytes >= limits.waiting_bytes:
            raise BusBusy(
                f"{self._waiting} messages wait for the server already; try again in a second"
            )
        self._waiting += 1
        self._waiting_bytes += size
        try:
            connection = self._line.ready or await self._line.open()
            backlog = self._backlogs.get(entry.uid) or self._watch(entry.uid)
            if backlog.is_full:
                await _make_sure(backlog, connection)
            appended = connection.send_soon(entry.pack())
            backlog.add(connection, size)
            ident: bytes = await appended
        finally:
            self._waiting -= 1
            self._waiting_bytes -= size
        return ident.decode()

    async def publish(self, channel: str, payload: bytes) -> int:
        """Publishes, with all that is appended in this tick; how many listen. Raises BusUnavailable
        and BusRefused."""
        return int(
            await (self._line.ready or await self._line.open()).send_soon(
                pack("PUBLISH", channel, payload)
            )
        )

    async def listeners(self, channel: str) -> int:
        """How many listen on a channel. Raises BusUnavailable and BusRefused."""
        told = await (self._line.ready or await self._line.open()).send_soon(
            pack("PUBSUB", "NUMSUB", channel)
        )
        return int(told[1])

    async def pause_of(self, uid: str) -> str:
        """Why a pipeline's worker does not do what waits, as it said last; "" where none does.
        Raises as `publish` does."""
        return pauses_of(await read_roll(self._line)).get(uid, "")

    def _watch(self, uid: str) -> Backlog:
        backlog = self._backlogs[uid] = Backlog(uid, self._limits)
        return backlog


async def _make_sure(backlog: Backlog, connection: Connection) -> None:
    """Raises BusBusy where there is no room now; never on what was known long ago."""
    await backlog.look(connection)
    if backlog.is_full:
        raise BusBusy(backlog.reason)

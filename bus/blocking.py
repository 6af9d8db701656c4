"""Reads that wait at the server, and calling them back when there is something else to read."""

import asyncio
from functools import partial
from typing import Any

from bus.connection import Connection
from bus.errors import BusError
from bus.resp import pack

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

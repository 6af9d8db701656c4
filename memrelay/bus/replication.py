"""Whether replicas have what was written, so that a failover loses nothing of it."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusRefused
from memrelay.bus.keys import probe_key

# How long WAIT may take, and the pause between two looks.
WAIT_MS, PAUSE_S = 1000, 0.5


@dataclass(slots=True)
class Replication:
    """The state of the replicas of a server.

    They have everything that was acknowledged before `confirmed_s` (time.monotonic()). It is
    infinite for a server that no replica replaces.
    """

    wanted: int
    confirmed_s: float

    @classmethod
    def of(cls, address: Address) -> "Replication":
        """Return the state before the first `look`."""
        confirmed_s = float("-inf") if address.may_fail_over else float("inf")
        return cls(max(1, address.min_replicas), confirmed_s)

    async def watch(
        self, client: ReconnectingConnection, is_needed: Callable[[], object] = lambda: True
    ) -> None:
        """Look repeatedly, if a replica may replace the server and it is needed.

        Raises BusUnavailable.
        """
        while self.confirmed_s < float("inf"):
            if is_needed():
                await self.look(client)
            await asyncio.sleep(PAUSE_S)

    async def look(self, client: ReconnectingConnection) -> None:
        """Wait until the replicas have everything that was acknowledged until now.

        Raises BusUnavailable. A server without WAIT leaves the state as it is.
        """
        began_s = time.monotonic()
        # WAIT counts the replicas that have the last write of its connection and all before it.
        write = "SET", probe_key("replicas", client.cells[0]), 1, "PX", 10 * WAIT_MS
        wait = "WAIT", self.wanted, WAIT_MS
        _, count = await client.call_all((write, wait), keep_refusals=True)
        if not isinstance(count, BusRefused) and count >= self.wanted:
            self.confirmed_s = began_s

"""Whether replicas have what was written, so that a failover loses nothing of it."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from memrelay.bus.client.primary import is_primary
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusRefused
from memrelay.bus.keys import probe_key

# How long WAIT may take, and the pause between two looks.
WAIT_MS, PAUSE_S = 1000, 0.5
# How long a replica that is no longer connected counts: it may be the new primary.
FORGET_S = 60.0


@dataclass(slots=True)
class Replication:
    """The state of the replicas of a server.

    All connected replicas, and at least `wanted`, have everything that was acknowledged before
    `confirmed_s` (time.monotonic()). It is infinite for a server that no replica replaces.
    """

    wanted: int
    confirmed_s: float
    # By address: when a replica was last connected (time.monotonic()).
    _seen: dict[tuple[bytes, bytes], float] = field(default_factory=dict)

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

        A promoted replica leaves its primary, which does not know that yet. So the replicas of the
        last minute must all confirm. Raises BusUnavailable. A server without WAIT leaves the state
        as it is; one without ROLE needs `wanted` confirmations.
        """
        began_s = time.monotonic()
        # WAIT counts the replicas that have the last write of its connection and all before it.
        write = "SET", probe_key("replicas", client.cells[0]), 1, "PX", 10 * WAIT_MS
        wait = "WAIT", max(self.wanted, len(self._seen)), WAIT_MS
        _, count, role = await client.call_all((write, wait, ("ROLE",)), keep_refusals=True)
        self._note_replicas(role, time.monotonic())
        needed = max(self.wanted, len(self._seen))
        if not isinstance(count, BusRefused) and count >= needed:
            self.confirmed_s = began_s

    def _note_replicas(self, role: Any, now_s: float) -> None:
        """Take a reply to ROLE: [b"master", offset, [[host, port, offset], ...]]."""
        if not isinstance(role, BusRefused) and is_primary(role):
            self._seen |= {(host, port): now_s for host, port, _ in role[2]}
        self._seen = {one: at_s for one, at_s in self._seen.items() if now_s - at_s < FORGET_S}

"""Turns of recovery: a few groups recover at a time, from their first step to their last.

If all groups recovered together, each would lose its open store to the others between two steps.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# Groups that recover at a time. While one waits for the bus, others use the database threads.
TOGETHER = 4
# The next group begins after this time, even if a store is locked or a block hangs.
PATIENCE_S = 0.5


class RecoveryTurns:
    """Grants turns in the order in which groups ask for them."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(TOGETHER)
        # Groups that have not recovered.
        self.unfinished = 0

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for a turn, and end it with the block or after PATIENCE_S."""
        self.unfinished += 1
        try:
            await self._free.acquire()
            turn = _Turn(self._free)
            try:
                yield
            finally:
                turn.end()
        finally:
            self.unfinished -= 1


class _Turn:
    def __init__(self, free: asyncio.Semaphore) -> None:
        self._free, self._has_ended = free, False
        self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, self.end)

    def end(self) -> None:
        """End the turn once."""
        self._timer.cancel()
        if not self._has_ended:
            self._has_ended = True
            self._free.release()

"""Turns for checks of bundles. One runs at a time, because an expensive one takes half a second."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from memrelay.web.server.errors import Unavailable

# Checks that may wait or run, in total and of one caller.
MAX_CHECKS, MAX_CALLER_CHECKS = 32, 4


class BundleChecks:
    """Gives each check a turn.

    A caller is the id of a key. Without keys it is "", which all local programs share, so it may
    have all checks.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._counts: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        """Run the block when no other check runs. Raises Unavailable if too many checks wait."""
        most = MAX_CALLER_CHECKS if caller else MAX_CHECKS
        if self._counts.total() >= MAX_CHECKS or self._counts[caller] >= most:
            raise Unavailable("too many bundles are being checked; retry in a second")
        self._counts[caller] += 1
        try:
            async with self._turn:
                yield
        finally:
            self._counts[caller] -= 1
            if not self._counts[caller]:
                del self._counts[caller]

"""The status as everybody who looks at a page sees it: read once a second at most, however many pages are open."""
import asyncio
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web

from bus.line import Line
from memory.catalog import Catalog
from web.status import read_status

FRESH_S = 1.0


class Glance:
    """Whoever asks while the status is being read waits for the same reading."""

    def __init__(self, catalog: Catalog, line: Line, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._catalog, self._line, self._clock = catalog, line, clock
        self._reading: asyncio.Task[dict[str, Any]] | None = None
        self._began = 0.0

    async def status(self, *, anew: bool = False) -> dict[str, Any]:
        """As web.status gives it, a second old at most; not at all if `anew`. Raises BusUnavailable, BusRefused, StoreBusy."""
        if self._reading is None or anew or (self._reading.done() and self._clock() - self._began >= FRESH_S):
            self._began = self._clock()
            self._reading = asyncio.create_task(read_status(self._catalog, self._line))
        return await asyncio.shield(self._reading)


GLANCE = web.AppKey("glance", Glance)

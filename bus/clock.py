"""The time of the bus, which dates every message, for what is asked for beside messages: known
between two looks at it."""

import time
from collections.abc import Callable

from bus.connection import Connection
from bus.roll import time_of_bus


class BusClock:
    """Goes on by itself, and not with the machine's own clock, which may be wrong, or be set."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`monotonic` tells seconds. Before the first look it has the time of the machine."""
        self._monotonic = monotonic
        self._ahead_ms = time.time_ns() / 1_000_000 - self._now()  # of `monotonic`
        self._looked = False

    @property
    def now_ms(self) -> int:
        """Unix ms."""
        return int(self._now() + self._ahead_ms)

    async def look(self, connection: Connection) -> None:
        """Asks the server. Raises BusUnavailable or BusRefused."""
        began_ms = self._now()
        self.hear(await time_of_bus(connection), began_ms)

    def hear(self, told_ms: int, began_ms: float) -> None:
        """The server's word, for which it was asked at `began_ms`. It was so at some moment since;
        what fits stays."""
        least, most = told_ms - self._now(), told_ms + 1 - began_ms
        self._ahead_ms = (
            min(max(self._ahead_ms, least), most) if self._looked else (least + most) / 2
        )
        self._looked = True

    def _now(self) -> float:
        return self._monotonic() * 1000

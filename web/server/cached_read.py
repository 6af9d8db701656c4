"""Something that many ask for and that takes a reading: read once a second at most, however many
they are."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

Seen = TypeVar("Seen")
FRESH_S = 1.0


class CachedRead(Generic[Seen]):
    """Whoever asks while it is being read waits for the same reading."""

    def __init__(
        self,
        read: Callable[[], Coroutine[Any, Any, Seen]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` gives seconds."""
        self._read, self._clock = read, clock
        self._reading: asyncio.Task[Seen] | None = None
        self._began = 0.0

    async def look(self, *, anew: bool = False) -> Seen:
        """What was there a second ago at most; now, if `anew`. Raises what reading raises."""
        reading = self._reading
        if reading is None or anew or (reading.done() and self._clock() - self._began >= FRESH_S):
            self._began = self._clock()
            reading = self._reading = asyncio.create_task(self._read())
        return reading.result() if reading.done() else await asyncio.shield(reading)

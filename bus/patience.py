"""Patience with a server that is there and says nothing: a network that is cut in two breaks no
connection."""

import asyncio
from collections.abc import Callable

LOOK_S = 2.5  # longer than any read waits at the server
SILENT_LOOKS = 3  # a single one may be late, as after this process was stopped and continued


class Patience:
    """Gives up after 5 to 7.5 s in which something was awaited and nothing was heard."""

    def __init__(
        self, waits: Callable[[], object], give_up: Callable[[float], None], look_s: float = LOOK_S
    ) -> None:
        """`waits` tells whether anything is awaited; `give_up` gets the seconds of silence,
        once."""
        self._waits, self._give_up, self._look_s = waits, give_up, look_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._silent = 0
        self.heard = False  # set by whoever hears something

    def begin(self) -> None:
        """Something is awaited from now on."""
        if self._timer is None:
            self._silent = 0
            self._timer = self._loop.call_later(self._look_s, self._look)

    def end(self) -> None:
        """Nothing is awaited any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        if not self._waits():
            return
        silent = 0 if self.heard else self._silent + 1
        self.heard = False
        if silent == SILENT_LOOKS:
            self._give_up(self._look_s * SILENT_LOOKS)
            return
        self.begin()
        self._silent = silent

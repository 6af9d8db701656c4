"""The time limit of searches: SQLite interrupts a SELECT that runs longer.

The processor time of the thread counts, so that a busy machine does not refuse a good search.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apsw

from memrelay.memory.errors import SearchTooLong, StoreBusy

SEARCH_S = 1.0
# SQLite checks the time once per this many of its instructions: about every 10 ms.
INSTRUCTIONS = 1000


class TimeLimit:
    """Limits the processor time of reads on one connection. `seconds` is the limit."""

    def __init__(
        self,
        connection: apsw.Connection,
        seconds: float = SEARCH_S,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._connection, self.seconds, self._clock = connection, seconds, clock
        # A time of the clock, 0 outside of a search.
        self._deadline = 0.0

    @contextmanager
    def bounded(self, seconds: float | None = None) -> Iterator[None]:
        """Interrupt the reads of a search after the limit. Nested uses share the first deadline.

        `seconds` replaces the limit of the connection.

        Raises SearchTooLong. Raises StoreBusy if the interruption undid the open transaction.
        """
        if self._deadline:
            yield
            return
        was_open = self._connection.in_transaction
        limit_s = self.seconds if seconds is None else seconds
        self._deadline = self._clock() + limit_s
        self._connection.set_progress_handler(self._has_ended, INSTRUCTIONS)
        try:
            yield
        except apsw.InterruptError as error:
            if was_open and not self._connection.in_transaction:
                raise StoreBusy("a search was too slow while it wrote; it is retried") from error
            raise SearchTooLong(
                f"the search takes longer than {limit_s:g} s, the limit; use fewer words, "
                "rarer words, or more letters before a star"
            ) from error
        finally:
            self._connection.set_progress_handler(None)
            self._deadline = 0.0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the block from the limit: it loads or caches what later searches use."""
        began, deadline = self._clock(), self._deadline
        self._deadline = float("inf") if deadline else 0.0
        try:
            yield
        finally:
            self._deadline = deadline and deadline + self._clock() - began

    def _has_ended(self) -> bool:
        return self._clock() > self._deadline

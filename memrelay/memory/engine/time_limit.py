"""The time limit of searches: SQLite interrupts a SELECT that runs longer.

The processor time of the thread counts, so that a busy machine does not refuse a good search.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

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

    def bounded(self, seconds: float | None = None) -> "BoundedSearch":
        """Interrupt the reads of a search after the limit. Nested uses share the first deadline.

        `seconds` replaces the limit of the connection.

        The block raises SearchTooLong, and StoreBusy if the interruption undid the open
        transaction.
        """
        return BoundedSearch(self, self.seconds if seconds is None else seconds)

    def begin(self, seconds: float) -> bool:
        """Set the deadline. Return whether there was none."""
        if self._deadline:
            return False
        self._deadline = self._clock() + seconds
        self._connection.set_progress_handler(self._has_ended, INSTRUCTIONS)
        return True

    def end(self) -> None:
        """Remove the deadline."""
        self._connection.set_progress_handler(None)
        self._deadline = 0.0

    @property
    def in_transaction(self) -> bool:
        """Return whether the connection has an open transaction."""
        return self._connection.in_transaction

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


class BoundedSearch:
    """The context of one limited search. A class, because a generator costs twice as much."""

    __slots__ = ("_is_first", "_limit", "_seconds", "_was_open")

    def __init__(self, limit: TimeLimit, seconds: float) -> None:
        self._limit, self._seconds = limit, seconds
        self._was_open = self._is_first = False

    def __enter__(self) -> None:
        self._was_open = self._limit.in_transaction
        self._is_first = self._limit.begin(self._seconds)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._is_first:
            return
        self._limit.end()
        if not isinstance(error, apsw.InterruptError):
            return
        if self._was_open and not self._limit.in_transaction:
            raise StoreBusy("a search was too slow while it wrote; it is retried") from error
        raise SearchTooLong(
            f"the search takes longer than {self._seconds:g} s, the limit; use fewer words, "
            "rarer words, or more letters before a star"
        ) from error

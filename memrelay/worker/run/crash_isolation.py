"""Runs a message that may have crashed the process alone, so that no other message is blamed."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# How long an input that runs alone holds back other batches. A block that hangs holds up nothing.
MAX_WAIT_S = 1.0


class CrashIsolation:
    """Coordinates the database threads of a process after a crash.

    Inputs that were in flight run again, and an attempt without an outcome counts against them
    (`attempt_journal`). From the second attempt on, an input runs alone, so a crash is its own.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0  # batches that do not run alone
        # Stands for the input that runs alone, or waits to do so.
        self._alone: object | None = None
        # When other batches go on in any case, by time.monotonic().
        self._until_s = 0.0

    def concurrent(self) -> "_Concurrent":
        """Return the context in which a batch runs next to others."""
        return _Concurrent(self)

    def enter(self) -> None:
        """Count a batch that runs next to others, after waiting for an input that runs alone."""
        with self._changed:
            if self._alone is not None:
                self._wait(lambda: self._alone is None)
            self._running += 1

    def leave(self) -> None:
        """End what `enter` began."""
        with self._changed:
            self._running -= 1
            if self._alone is not None:  # otherwise no thread waits
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait for all running batches, and hold back new ones."""
        mine = object()
        with self._changed:
            self._wait(lambda: self._alone is None)
            self._alone, self._until_s = mine, time.monotonic() + MAX_WAIT_S
            self._wait(lambda: not self._running)
        try:
            yield
        finally:
            with self._changed:
                if self._alone is mine:
                    self._alone = None
                self._changed.notify_all()

    def _wait(self, ready: Callable[[], bool]) -> None:
        self._changed.wait_for(ready, max(0.0, self._until_s - time.monotonic()))


class _Concurrent:
    """The context of each batch. A context from a generator costs four times as much."""

    __slots__ = ("_isolation",)

    def __init__(self, isolation: CrashIsolation) -> None:
        self._isolation = isolation

    def __enter__(self) -> None:
        self._isolation.enter()

    def __exit__(self, *_: object) -> None:
        self._isolation.leave()

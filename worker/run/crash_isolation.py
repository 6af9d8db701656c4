"""Quarantine: what may have ended the process before runs with nothing beside it, so that nothing
else is blamed."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# for which others are held back by one that runs alone; they are not held up by a block that hangs
PATIENCE_S = 1.0


class CrashIsolation:
    """Who runs in a process, for its database threads.

    After a crash what was in flight is tried again, group beside group, and an attempt without an
    outcome counts against its
    message. The first may be the fault of any that ran; from the second on a message runs alone,
    and an end is its own.
    """

    def __init__(self) -> None:
        """Nobody runs yet."""
        self._changed = threading.Condition()
        self._beside = 0  # batches that run
        self._alone: object | None = None  # stands for the input that runs alone, or is about to
        self._until_s = 0.0  # as time.monotonic() counts: when those held back go on in any case

    def beside(self) -> "_Beside":
        """Runs beside others, when none has to be alone."""
        return _Beside(self)

    def come(self) -> None:
        """One more runs beside others."""
        with self._changed:
            if self._alone is not None:
                self._wait(lambda: self._alone is None)
            self._beside += 1

    def go(self) -> None:
        """It has run."""
        with self._changed:
            self._beside -= 1
            if self._alone is not None:  # else nobody waits
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Runs when no other does, and holds back those that come meanwhile."""
        mine = object()
        with self._changed:
            self._wait(lambda: self._alone is None)
            self._alone, self._until_s = mine, time.monotonic() + PATIENCE_S
            self._wait(lambda: not self._beside)
        try:
            yield
        finally:
            with self._changed:
                if self._alone is mine:
                    self._alone = None
                self._changed.notify_all()

    def _wait(self, ready: Callable[[], bool]) -> None:
        """Until it is ready, or whoever runs alone has had its time."""
        self._changed.wait_for(ready, max(0.0, self._until_s - time.monotonic()))


class _Beside:
    """Entered for each batch, where a context of a generator costs four times as much."""

    __slots__ = ("_quarantine",)

    def __init__(self, quarantine: CrashIsolation) -> None:
        self._quarantine = quarantine

    def __enter__(self) -> None:
        self._quarantine.come()

    def __exit__(self, *_: object) -> None:
        self._quarantine.go()

"""Runs a message that may have crashed the process alone, so that no other message is blamed.

The first crash may be the fault of any input that ran, so after it all of them run in batches
again. An input that was recorded before this recovery began was in a batch during a second crash.
Such a suspect runs alone, so a further crash is its own.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile

from memrelay.memory.engine.stores import OpenStores
from memrelay.worker.run.inputs import Work

# How long an input that runs alone holds back other batches. A block that hangs holds up nothing.
MAX_WAIT_S = 1.0


class CrashIsolation:
    """Coordinates the database threads of a process after a crash."""

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


class AttemptJournal:
    """The attempts of inputs that were in flight at the crash, in the stores of their pipelines.

    `count_together` reads them, `record` adds one for each input before it runs, and `is_suspect`
    and `attempts_alone` tell what is known of an input after that.
    """

    def __init__(self) -> None:
        # By store: the attempts before this recovery.
        self._before: dict[str, dict[str, int]] = {}
        # By key: the attempts with that of this recovery.
        self._counts: dict[str, int] = {}
        # Inputs that were committed before the crash: they do not run again.
        self._done: set[str] = set()

    def count_together(self, stores: OpenStores, work: Sequence[Work]) -> int:
        """Return how many of the next inputs run together: those before a suspect, or it alone."""
        for memory_id in {one.plan.stores[0] for one in work} - self._before.keys():
            self._before[memory_id] = stores.get(memory_id).inbox.attempts()
        self._done.update(
            one.key
            for one in work
            if any(one.key in stores.get(name).inbox.numbers for name in one.plan.stores)
        )
        return sum(1 for _ in takewhile(lambda one: not self.is_suspect(one), work)) or 1

    def record(self, stores: OpenStores, work: Sequence[Work]) -> None:
        """Record that inputs begin now. Each counts once, however often its batch is repeated.

        Raises StoreBusy, StoreBroken and StoreFenced; a second call continues.
        """
        keys: dict[str, list[str]] = {}
        for one in work:
            if one.key not in self._counts and one.key not in self._done:
                keys.setdefault(one.plan.stores[0], []).append(one.key)
        for memory_id, new in keys.items():
            with stores.get(memory_id).transaction() as store:
                store.inbox.count_attempts(new)
            before = self._before[memory_id]
            self._counts |= {key: before.get(key, 0) + 1 for key in new}

    def is_suspect(self, one: Work) -> bool:
        """Return whether an input was tried before this recovery, so that it runs alone."""
        return one.key in self._before[one.plan.stores[0]] and one.key not in self._done

    def attempts_alone(self, key: str) -> int:
        """Return the number of attempts of an input alone, with the current one.

        The first attempt was in a batch, so a crash in it may be the fault of another input.
        """
        return self._counts.get(key, 1) - 1

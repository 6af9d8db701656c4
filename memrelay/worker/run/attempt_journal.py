"""Records the attempts of inputs that were in flight when the process ended.

The first crash may be the fault of any input that ran, so after it all of them run in batches
again. An input that was recorded before this recovery began was in a batch during a second crash.
Such a suspect runs alone, so a further crash is its own.
"""

from collections.abc import Sequence
from itertools import takewhile

from memrelay.memory.engine.stores import OpenStores
from memrelay.worker.run.inputs import Work


class AttemptJournal:
    """The attempts of one recovery, in the stores of the inputs' pipelines."""

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
        self._done.update(one.key for one in work if _is_done(stores, one))
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

    def count_alone(self, key: str) -> int:
        """Return the number of attempts of an input alone, with the current one.

        The first attempt was in a batch, so a crash in it may be the fault of another input.
        """
        return self._counts.get(key, 1) - 1


def _is_done(stores: OpenStores, one: Work) -> bool:
    return any(one.key in stores.get(name).inbox.numbers for name in one.plan.stores)

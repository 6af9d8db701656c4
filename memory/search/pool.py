"""The memory limit for search caches of one database thread, with least-recently-used eviction."""

import threading
from collections import OrderedDict
from typing import NamedTuple, Protocol

from memrelay.memory.embedding.questions import Questions

BUDGET = 256 << 20  # bytes; the cache in use stays even if it alone is larger


class Cache(Protocol):
    """A cache that can be dropped and rebuilt."""

    def nbytes(self) -> int:
        """Return the size in bytes."""

    def drop(self) -> None:
        """Free the memory."""


class Pool(threading.local):
    """The caches of one thread's stores. Each thread has its own pool; `budget` is in bytes."""

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self._kept: OrderedDict[int, Cache] = OrderedDict()

    def mark_used(self, one: Cache) -> None:
        """Mark a cache as used now, and drop the oldest ones above the budget."""
        self._kept[id(one)] = one
        self._kept.move_to_end(id(one))
        sizes = {key: kept.nbytes() for key, kept in self._kept.items()}
        total = sum(sizes.values())
        for key in list(self._kept)[:-1]:
            if total <= self.budget:
                return
            total -= sizes[key]
            self._kept.pop(key).drop()

    def forget(self, one: Cache) -> None:
        """Remove the cache of a store that is closing."""
        self._kept.pop(id(one), None)


POOL = Pool()


class Meaning(NamedTuple):
    """The parts that semantic search shares between the stores of a worker."""

    questions: Questions
    matrices: Pool  # the memory limit for vectors, of each database thread

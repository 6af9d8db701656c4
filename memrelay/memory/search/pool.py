"""The memory limit for the search caches of a worker, with least-recently-used eviction."""

from collections import OrderedDict, deque
from threading import Lock, get_ident
from typing import NamedTuple, Protocol

from memrelay.memory.search.embedding.questions import QuestionEmbedder

BUDGET = 64 << 20  # bytes
# The caches that each thread used last stay even above the limit: words and vectors of a store.
IN_USE = 2


class Cache(Protocol):
    """A cache that can be dropped and rebuilt."""

    def nbytes(self) -> int:
        """Return the size in bytes."""

    def drop(self) -> None:
        """Free the memory."""


class _Kept(NamedTuple):
    """A cache, its size in bytes when it was last used, and its thread."""

    cache: Cache
    size: int
    thread: int


class Pool:
    """The caches of all stores of a worker. `budget` is their total in bytes.

    A cache belongs to one thread. A thread drops its own caches. It marks those of other threads,
    which drop them at their next use of the pool. `largest` is the maximum size of one matrix of
    vectors, by default the budget.
    """

    def __init__(self, budget: int = BUDGET, largest: int | None = None) -> None:
        self.budget = budget
        self.largest = budget if largest is None else largest
        self._lock = Lock()
        # By the cache's id, the least recently used first.
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._evicted: dict[int, _Kept] = {}
        # By thread: the ids of the caches that it used last.
        self._in_use: dict[int, deque[int]] = {}
        self._total = 0

    @property
    def nbytes(self) -> int:
        """Return the size of all caches that are kept, bytes."""
        return self._total

    def mark_used(self, one: Cache) -> None:
        """Mark a cache as used now, and evict the oldest ones above the budget."""
        key, thread, size = id(one), get_ident(), one.nbytes()
        with self._lock:
            self._remove(key)
            self._kept[key] = _Kept(one, size, thread)
            self._total += size
            in_use = self._in_use.setdefault(thread, deque(maxlen=IN_USE))
            if key in in_use:
                in_use.remove(key)
            in_use.append(key)
            self._evict()
        self.release()

    def release(self) -> None:
        """Drop the evicted caches of this thread."""
        thread = get_ident()
        with self._lock:
            keys = [key for key, kept in self._evicted.items() if kept.thread == thread]
            evicted = [self._evicted.pop(key) for key in keys]
        for kept in evicted:
            kept.cache.drop()

    def forget(self, one: Cache) -> None:
        """Remove the cache of a store that is closing."""
        with self._lock:
            self._remove(id(one))
            for in_use in self._in_use.values():
                if id(one) in in_use:
                    in_use.remove(id(one))

    def _remove(self, key: int) -> None:
        self._evicted.pop(key, None)
        if (kept := self._kept.pop(key, None)) is not None:
            self._total -= kept.size

    def _evict(self) -> None:
        if self._total <= self.budget:
            return
        in_use = {key for keys in self._in_use.values() for key in keys}
        for key in [key for key in self._kept if key not in in_use]:
            kept = self._kept[key]
            self._remove(key)
            self._evicted[key] = kept
            if self._total <= self.budget:
                return


POOL = Pool()


class SemanticResources(NamedTuple):
    """The parts that semantic search shares between the stores of a worker."""

    questions: QuestionEmbedder
    matrices: Pool  # the memory limit for the search caches of the stores

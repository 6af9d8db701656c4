"""How much memory the layouts of a database thread may take: the ones that were searched longest
ago go first."""

import threading
from collections import OrderedDict
from typing import NamedTuple, Protocol

from memrelay.memory.embedding.questions import Questions

BUDGET = 256 << 20  # bytes; a store that is larger alone stays while it is the one that is searched


class Kept(Protocol):
    """What can be made again."""

    def nbytes(self) -> int:
        """What it takes."""

    def drop(self) -> None:
        """Gives it back."""


class Pool(threading.local):
    """The layouts of the stores of one thread; each thread has its own."""

    def __init__(self, budget: int = BUDGET) -> None:
        """Empty; `budget` is in bytes."""
        self.budget = budget
        self._kept: OrderedDict[int, Kept] = OrderedDict()

    def used(self, one: Kept) -> None:
        """It is needed now; others may have to go."""
        self._kept[id(one)] = one
        self._kept.move_to_end(id(one))
        sizes = {key: kept.nbytes() for key, kept in self._kept.items()}
        total = sum(sizes.values())
        for key in list(self._kept)[:-1]:
            if total <= self.budget:
                return
            total -= sizes[key]
            self._kept.pop(key).drop()

    def forget(self, one: Kept) -> None:
        """Its store is closed."""
        self._kept.pop(id(one), None)


POOL = Pool()


# What searches by meaning have beside their store: one for a worker. Loads nothing by itself.


class Meaning(NamedTuple):
    """Who makes vectors of questions, and how much memory the stores' vectors may take."""

    questions: Questions
    matrices: Pool  # of each database thread

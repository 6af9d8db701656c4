"""The open stores of one database thread: at most so many files, the longest unused closed
first."""

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from memrelay.memory.disk import clear_drafts, make_folder
from memrelay.memory.errors import MemoryFault, StoreBroken, StoreBusy
from memrelay.memory.memory_id import path_of, stores_below
from memrelay.memory.search.pool import Meaning
from memrelay.memory.sqlite.connection import translated
from memrelay.memory.sqlite.copy import clear_copies
from memrelay.memory.sqlite.damage import condemn, note_of
from memrelay.memory.sqlite.store import Store


class OpenStores:
    """Opens stores by `memory_id` and keeps them open; belongs to one thread, as the stores do."""

    def __init__(self, root: Path, most_open: int, meaning: Meaning | None = None) -> None:
        """Stores below `root`; an open file costs about 200 kB and 3 handles. Without `meaning`
        searches know words alone."""
        self._root, self._most_open, self._meaning = root, most_open, meaning
        self._open: OrderedDict[str, Store] = OrderedDict()
        self._epochs: dict[str, int] = {}  # of their owner
        self._held: dict[str, int] = {}  # the same, once it stands in the file

    def get(self, memory_id: str) -> Store:
        """The store, opened or made. Raises BadMemoryId, StoreBusy, StoreBroken or StoreFenced."""
        store = self._open.get(memory_id)
        if store is None:
            store = self._opened(memory_id)
            self._make_room()
            self._open[memory_id] = store
        else:
            self._open.move_to_end(memory_id)
        return store

    def _opened(self, memory_id: str) -> Store:
        with ExitStack() as undo:
            store = Store(memory_id, path_of(self._root, memory_id), self._meaning)
            undo.callback(store.close)
            self._own(memory_id, store)
            undo.pop_all()
        return store

    def take_over(self, memory_id: str, epoch: int) -> None:
        """Belongs to the owner of that epoch from now on, whenever it is opened or made. Raises as
        `get` does."""
        self._epochs[memory_id] = epoch
        if memory_id in self._open:
            self._own(memory_id, self._open[memory_id])
        elif self.exists(memory_id):
            self.get(memory_id)

    def _own(self, memory_id: str, store: Store) -> None:
        if epoch := self._epochs.get(memory_id, 0):
            store.take_over(epoch, held=self._held.get(memory_id) == epoch)
            self._held[memory_id] = epoch

    def exists(self, memory_id: str) -> bool:
        """Whether the store was ever made; one that is gone, with a note on that, is not
        forgotten."""
        path = path_of(self._root, memory_id)
        return memory_id in self._open or path.exists() or note_of(path).exists()

    def below(self, folder: str) -> list[str]:
        """The memory_ids of the stores that were ever made below a folder of the root. Raises
        StoreBroken."""
        with translated(str(self._root / folder)):
            return stores_below(self._root, folder)

    def rewrite(self, memory_id: str) -> None:
        """Rewrites a store, so that nothing of what was deleted is in it, nor in what a killed
        program left."""
        self.get(memory_id).rewrite()
        clear_copies(self._root)
        clear_drafts(path_of(self._root, memory_id))

    def close(self, memory_id: str) -> None:
        """Closes one store, if it is open."""
        if store := self._open.pop(memory_id, None):
            store.close()

    def check_commits(self, told: Iterable[tuple[str, str]]) -> None:
        """With (memory_id, mark) of the last commits that the bus was told of. Raises StoreDamaged
        where some are lost."""
        for memory_id, mark in told:
            path = path_of(self._root, memory_id)
            self._epochs.pop(
                memory_id, None
            )  # of an earlier time: who owns it now takes it over afterwards
            if not self.exists(memory_id):
                make_folder(path.parent)
                raise condemn(path, "the file is gone, and what was acknowledged with it")
            if lost := self.get(memory_id).lacks(mark):
                raise self._open.pop(memory_id).give_up(
                    f"the last {lost} commits are lost, though they were acknowledged"
                )

    def give_up_damaged(self, names: Iterable[str], reason: str) -> MemoryFault | None:
        """One of these is damaged: it is closed as it is, with a note. So that nothing is half
        done, the others are closed.

        Returns what is to be raised of it, where that is known.
        """
        fault = None
        open_ = {name: store for name in names if (store := self._open.pop(name, None)) is not None}
        for store in open_.values():
            found = [reason] if len(open_) == 1 else store.structural_faults()
            if found:
                fault = store.give_up(found[0])
            else:
                store.close()
        return fault

    def probe(self) -> dict[str, str]:
        """Which open stores cannot be written to now, each with the reason."""
        faults = {}
        for name, store in self._open.items():
            try:
                store.probe()
            except (StoreBusy, StoreBroken) as error:
                faults[name] = str(error)
        return faults

    def close_all(self) -> None:
        """Checkpoints and closes every store."""
        while self._open:
            self._open.popitem()[1].close()

    def _make_room(self) -> None:
        """For one more. Stores within a transaction stay: the batch that opened them is under
        way."""
        surplus = len(self._open) + 1 - self._most_open
        if surplus > 0:
            idle = [name for name, store in self._open.items() if not store.in_transaction]
            for name in idle[:surplus]:
                self.close(name)

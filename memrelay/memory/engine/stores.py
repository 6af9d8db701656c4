"""Keep the open stores of one database thread. The least recently used store is closed first."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from memrelay.memory.engine.connection import translate_errors
from memrelay.memory.engine.copy import clear_copies, clear_reports
from memrelay.memory.engine.damage import mark_damaged, note_of
from memrelay.memory.engine.disk import clear_drafts, make_folder
from memrelay.memory.engine.memory_id import list_stores, store_path
from memrelay.memory.engine.models import load
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import MemoryFault, StoreBroken, StoreBusy, StoreDamaged
from memrelay.memory.search.pool import SemanticResources

if TYPE_CHECKING:
    from memrelay.memory.engine.journal.journal import Journal, Link
    from memrelay.memory.engine.snapshots import Snapshots

# Stores whose pages SQLite keeps in memory: up to 2 MB for each.
MOST_WITH_PAGES = 16
# Probes without a use after which a store is closed. A worker probes every 2 seconds.
IDLE_PROBES = 30
# Pause between two tries to reach a journal, which may take seconds each.
JOURNAL_PAUSE_S = 1.0


class OpenStores:
    """Open stores by `memory_id` and keep at most `most_open` of them open.

    It belongs to one thread, as its stores do. An open store costs about 350 kB and 3 file handles.
    Without `meaning`, searches match words only. With a `journal`, PostgreSQL has the stores, and
    their files are copies.
    """

    def __init__(
        self,
        root: Path,
        most_open: int,
        meaning: SemanticResources | None = None,
        journal: "Journal | None" = None,
    ) -> None:
        self._root, self._most_open, self._meaning = root, most_open, meaning
        self._journal = journal
        # The time of commits, Unix ms.
        self.clock: Callable[[], int] | None = None
        # When outdated files may be brought up to date again, as `time.monotonic` counts.
        self._journal_retry_s = 0.0
        # Stores that have a journal, although this host may have no file of them.
        self._journaled: set[str] = set()
        self._open: OrderedDict[str, Store] = OrderedDict()
        # The number of probes, and that number at the last use of a store.
        self._probes, self._used = 0, dict[str, int]()
        # Fencing epoch of the owner, by memory_id.
        self._epochs: dict[str, int] = {}
        # Called with each store that is opened, outside of a transaction.
        self.prepare: Callable[[Store], None] | None = None
        # The features of a store, by memory_id. Other stores have the default.
        self._features: dict[str, frozenset[str]] = {}
        # Fencing epoch that the file already contains, by memory_id.
        self._epochs_in_file: dict[str, int] = {}

    def make_snapshots(self, most_bytes: int) -> "Snapshots":
        """Return an empty set of snapshots, for another thread."""
        make: Callable[..., Snapshots] = load("memrelay.memory.engine.snapshots:Snapshots")
        return make(self._root, most_bytes, self._meaning)

    def get(self, memory_id: str) -> Store:
        """Return the store, opened or created if needed. Raises BadMemoryId, StoreBusy, StoreBroken
        or StoreFenced.
        """
        self._used[memory_id] = self._probes
        store = self._open.get(memory_id)
        if store is not None and store.link is not None and store.link.is_outdated:
            return self._open_again(memory_id, store)
        if store is None:
            store = self._open_store(memory_id, self._open_link(memory_id))
            self._close_surplus()
            self._open[memory_id] = store
        else:
            self._open.move_to_end(memory_id)
        return store

    def _open_again(self, memory_id: str, store: Store) -> Store:
        """Return the store with the commits that the journal has.

        While the journal cannot be reached, return the store as it is: it can be read.
        """
        if time.monotonic() < self._journal_retry_s:
            return store
        try:
            link = self._open_link(memory_id)
        except StoreBusy:
            self._journal_retry_s = time.monotonic() + JOURNAL_PAUSE_S
            return store
        self.close(memory_id)
        self._open[memory_id] = self._open_store(memory_id, link)
        return self._open[memory_id]

    def _open_link(self, memory_id: str) -> "Link | None":
        if self._journal is None:
            return None
        return self._journal.open(memory_id, self._epochs.get(memory_id, 0))

    def _open_store(self, memory_id: str, link: "Link | None") -> Store:
        with ExitStack() as undo:
            store = Store(memory_id, store_path(self._root, memory_id), self._meaning, link)
            undo.callback(store.close)
            if self.clock is not None:
                store.commits.clock = self.clock
            if memory_id in self._features:
                store.compose(self._features[memory_id])
            try:
                self._write_epoch(memory_id, store)
                if self.prepare is not None:
                    self.prepare(store)
            except StoreDamaged as damaged:
                raise store.give_up(str(damaged.__cause__ or damaged)) from damaged
            undo.pop_all()
        return store

    def take_over(self, memory_id: str, epoch: int) -> None:
        """Set the owner's fencing epoch of a store, now and whenever it is opened. Raises like
        `get`.
        """
        self._epochs[memory_id] = epoch
        if self._journal is not None:
            # An earlier owner may have written to the journal since it was opened.
            self.close(memory_id)
        if memory_id in self._open:
            self._write_epoch(memory_id, self._open[memory_id])
        elif self.exists(memory_id):
            self.get(memory_id)

    def take_over_later(self, memory_id: str, epoch: int) -> None:
        """Set the owner's fencing epoch of a store, which is written when it is opened."""
        self._epochs[memory_id] = epoch

    def compose(self, features: Mapping[str, frozenset[str]]) -> None:
        """Set the features of stores, by memory_id, now and whenever one is opened."""
        self._features |= features
        for name in features.keys() & self._open.keys():
            self._open[name].compose(features[name])
            if self.prepare is not None:
                self.prepare(self._open[name])

    def _write_epoch(self, memory_id: str, store: Store) -> None:
        if epoch := self._epochs.get(memory_id, 0):
            store.take_over(epoch, held=self._epochs_in_file.get(memory_id) == epoch)
            self._epochs_in_file[memory_id] = epoch

    def exists(self, memory_id: str) -> bool:
        """Return whether the store was ever created. A lost store with a damage note counts."""
        if memory_id in self._open or memory_id in self._journaled:
            return True
        path = store_path(self._root, memory_id)
        return path.exists() or note_of(path).exists()

    def below(self, folder: str) -> list[str]:
        """Return the memory_ids of existing stores below a folder of the root.
        Raises StoreBroken and StoreBusy.
        """
        with translate_errors(str(self._root / folder)):
            found = list_stores(self._root, folder)
        if self._journal is None:
            return found
        names = self._journal.names(folder)
        self._journaled.update(names)
        return sorted({*found, *names})

    def append_to_journal(self, stores: Sequence[Store]) -> None:
        """Append the open transactions of stores to their journals together, before they commit.

        Raises StoreBusy and StoreFenced.
        """
        if self._journal is not None and stores:
            for store in stores:
                store.complete()
            self._journal.append([store.link for store in stores if store.link is not None])

    def rewrite(self, memory_id: str) -> None:
        """Rewrite a store so that no deleted data remains.

        Leftovers of killed programs and the reports of rehearsals are removed.
        """
        self.get(memory_id).rewrite()
        if self._journal is not None:
            self.close(memory_id)
            self._journal.rewrite(memory_id)
        clear_copies(self._root)
        clear_reports(self._root)
        clear_drafts(store_path(self._root, memory_id))

    def close(self, memory_id: str) -> None:
        """Close the store if it is open."""
        if store := self._open.pop(memory_id, None):
            store.close()

    def check_commits(self, told: Iterable[tuple[str, str]]) -> None:
        """Compare stores with the last commit marks that the bus knows, as (memory_id, mark).

        Raises StoreDamaged: acknowledged commits are lost.
        """
        for memory_id, mark in told:
            path = store_path(self._root, memory_id)
            # The epoch is outdated: the current owner takes the store over later.
            self._epochs.pop(memory_id, None)
            if not self.exists(memory_id):
                make_folder(path.parent)
                raise mark_damaged(path, "the file and its acknowledged data are gone")
            if lost := self.get(memory_id).count_lost_commits(mark):
                raise self._open.pop(memory_id).give_up(
                    f"the last {lost} commits are lost, although they were acknowledged"
                )

    def give_up_damaged(self, names: Iterable[str], reason: str) -> MemoryFault | None:
        """Close these stores after one of them was found damaged.

        The damaged store gets a note and stays as it is. The others are closed so that no batch is
        left half done. Returns the error to raise, None if no store is known to be damaged.
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
        """Return the open stores that cannot be written to, each with the reason. None may have an
        open transaction.

        It also closes stores that were not used for IDLE_PROBES, and frees search caches that are
        no longer allowed, and the pages that SQLite keeps of all but the last used stores.
        """
        reasons = {}
        self._probes += 1
        self._close_unused()
        if self._meaning is not None:
            self._meaning.matrices.release()
        for name, store in self._open.items():
            try:
                store.probe()
            except (StoreBusy, StoreBroken) as error:
                reasons[name] = str(error)
        for name in list(self._open)[:-MOST_WITH_PAGES]:
            self._open[name].release_pages()
        return reasons

    def close_all(self) -> None:
        """Checkpoint and close every store."""
        while self._open:
            self._open.popitem()[1].close()
        if self._journal is not None:
            self._journal.close()

    def _close_unused(self) -> None:
        for name in [name for name, at in self._used.items() if self._probes - at > IDLE_PROBES]:
            del self._used[name]
            self.close(name)

    def _close_surplus(self) -> None:
        """Close idle stores so that one more can be opened.

        Stores with an open transaction stay open, because a batch uses them.
        """
        surplus = len(self._open) + 1 - self._most_open
        if surplus > 0:
            idle = [name for name, store in self._open.items() if not store.in_transaction]
            for name in idle[:surplus]:
                self.close(name)

"""A store: one SQLite file at a `memory_id`, with its transaction."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast
from weakref import proxy

import apsw

from memrelay.memory.engine.connection import (
    CommitCount,
    lost_commits,
    open_store_file,
    translate_errors,
)
from memrelay.memory.engine.damage import (
    found_damaged,
    keep_log,
    mark_on_damage,
    structural_faults,
)
from memrelay.memory.engine.disk import inode_of
from memrelay.memory.engine.erasures import Erasures
from memrelay.memory.engine.features import compose, default_features
from memrelay.memory.engine.feed import ChangeFeed
from memrelay.memory.engine.fulltext import Segments
from memrelay.memory.engine.inbox import Inbox, PendingTable
from memrelay.memory.engine.models import find_key_table, own_features
from memrelay.memory.engine.records import RecordTable
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.engine.time_limit import BoundedSearch, TimeLimit
from memrelay.memory.engine.vectors import VectorTable
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import MemoryFault, StoreBroken, StoreFenced

if TYPE_CHECKING:
    from memrelay.memory.engine.journal.journal import Link
    from memrelay.memory.search.pool import SemanticResources
    from memrelay.memory.search.ranker import Ranker

Table = TypeVar("Table", bound=StoreTable)
# SQLite moves its log into the store at about 4 MB. A reader delays that, and the file stays large.
MAX_LOG_BYTES = 16 << 20
HAS_JOURNAL = "SELECT EXISTS (SELECT 1 FROM journal)"
IS_A_COPY = (
    "is the copy of a store whose journal is in PostgreSQL, so nothing may be written to it alone; "
    "set storage.url, or make the file independent with `memrelay backup` and `memrelay restore`"
)


class Store:
    """An open store file, used by one thread. Operations receive it as `tx` inside `begin` and
    `commit`.

    Opening creates the file if needed. It raises StoreBroken or StoreBusy. The store has no owner
    before `take_over`. Without `meaning`, searches match words only. With a `link`, each commit is
    in the store's journal before it is in the file.
    """

    def __init__(
        self,
        memory_id: str,
        path: Path,
        meaning: "SemanticResources | None" = None,
        link: "Link | None" = None,
    ) -> None:
        self.memory_id, self.path, self._epoch, self._meaning = memory_id, str(path), 0, meaning
        self.link = link
        self._connection = open_store_file(path)
        if link is not None:
            link.attach(self._connection)
        self._open, self.time_limit = False, TimeLimit(self._connection)
        # Created by the first search that ranks.
        self._ranker: Ranker | None = None
        self._inode, self._log, self._log_inode = inode_of(path), f"{path}-wal", 0
        try:
            with translate_errors(self.path), mark_on_damage(path):
                if link is None and self._connection.execute(HAS_JOURNAL).get:
                    raise StoreBroken(f"{path} {IS_A_COPY}")
                self._create_tables()
                # The log exists since the first read.
                self._log_inode = inode_of(self._log)
        except MemoryFault:
            self._close_unchanged()
            raise

    def _create_tables(self) -> None:
        # A weak reference, so that an unused store is closed without a garbage collection.
        own = partial(Store.transaction, proxy(self))
        self.records = RecordTable(self._connection, own)
        self.inbox = Inbox(self._connection)
        self.pending = PendingTable(self._connection)
        self.commits = CommitCount(self._connection)
        self.vectors = VectorTable(self._connection)
        self.segments = Segments(self._connection)
        self._tables: dict[type[StoreTable], StoreTable] = {}
        # It can be read even if the feature is off.
        self.feed = self.table(ChangeFeed)
        self._wanted_features = default_features(self.memory_id)
        self.refresh_features()
        find_table = partial(Store.table, proxy(self))
        self.erasures = Erasures(self._connection, self.records, self.inbox, find_table)

    def table(self, cls: type[Table]) -> Table:
        """Return the store's object of a table class, which is made at its first use."""
        found = self._tables.get(cls)
        if found is None:
            found = self._tables[cls] = cls(self)
        return cast(Table, found)

    def compose(self, names: Collection[str]) -> None:
        """Give the store the write path with these features (features.py) and those that its file
        asks for, between two batches.
        """
        self._wanted_features = frozenset(names)
        names = self._wanted_features | self._own_features
        if self.records.path.names != names:
            self.records.path = path = compose(self, names)
            self.records.versions.origins.admit_texts = path.admit_texts

    def refresh_features(self) -> None:
        """Compose the write path again after a change of what the file asks for."""
        run = self._connection.execute
        self._own_features = frozenset(name for name, sql in own_features().items() if run(sql).get)
        self.compose(self._wanted_features)

    @property
    def extent(self) -> tuple[int, int]:
        """Return what each change of the store raises, to see whether there was one."""
        return self.records.versions.last_change, self._connection.total_changes()

    def has_feature(self, name: str) -> bool:
        """Return whether a feature is in the write path."""
        return name in self.records.path.names

    @property
    def connection(self) -> apsw.Connection:
        """Return the connection, for the SQL of table classes."""
        return self._connection

    def take_over(self, epoch: int, *, held: bool = False) -> None:
        """Set the fencing epoch of the new owner, which excludes earlier owners.

        `held`: the file already has this owner under that epoch. Otherwise, an equal epoch in the
        file belongs to another owner, since a bus that lost its epochs issues them again. Raises
        StoreFenced and StoreBusy.

        The epoch is on disk with the first commit: until then, a power failure ends all owners.
        """
        self._drop_ranker()
        try:
            with translate_errors(self.path):
                self._connection.pragma("synchronous", "NORMAL")
            self.begin(epoch if held else epoch - 1)
            with translate_errors(self.path):
                # The previous owner may have written since they were read.
                for part in (self.records, self.inbox, self.commits):
                    part.reset()
                for table in self._tables.values():
                    table.reset()
                self.refresh_features()
                self._connection.execute(
                    "UPDATE fence SET epoch = ? WHERE epoch < ?", (epoch, epoch)
                )
                # Not counted: otherwise the first lost commit would not be noticed.
                self._connection.execute("COMMIT")
            self._open = False
        finally:
            if self._open:
                self.rollback()
            self._connection.pragma("synchronous", "FULL")
        self._epoch = epoch

    def key_holder(self, state: State) -> StoredRecord | None:
        """Return the other record that has the key of a record, None if the key is free or need not
        be unique. Expired records with the key are removed.
        """
        cls = find_key_table(state.kind)
        found: StoredRecord | None = None if cls is None else self.table(cls).holder(state)
        return found

    @property
    def in_transaction(self) -> bool:
        """Return whether a transaction is open."""
        return self._open

    def begin(self, most: int | None = None) -> None:
        """Take the write lock now, so that no later write fails on it. Raises StoreBusy and
        StoreFenced.

        `most` is the highest fencing epoch that the file may have, by default the owner's.
        """
        is_fenced = bool(self._epoch) or most is not None
        most = self._epoch if most is None else most
        if self.link is not None:
            self.link.begin()
        with translate_errors(self.path):
            self._check_in_place()
            self._connection.execute("BEGIN IMMEDIATE")
            self._open = True
            try:
                found = self._connection.execute("SELECT epoch FROM fence").get if is_fenced else 0
            except apsw.Error:  # the page of the epoch is damaged or cannot be read
                self.rollback()
                raise
        if found > most:
            self.rollback()
            raise StoreFenced(self.path, found)

    def complete(self) -> None:
        """Write buffered rows, so that the transaction can be appended to a journal and committed.

        Raises StoreBusy.
        """
        with translate_errors(self.path):
            self.records.store_buffered()
            self.inbox.complete()
            self.commits.complete(self.records.versions.last_change)

    def commit(self) -> None:
        """Write buffered rows and commit durably. Raises StoreBusy, after which only `rollback` is
        valid; with a journal also StoreFenced.
        """
        if self.link is None or not self.link.is_appended:
            self.complete()
            if self.link is not None:
                self.link.append()
        with translate_errors(self.path):
            self._connection.execute("COMMIT")
        self.commits.committed()
        self._open = False
        if self.link is not None:
            self.link.committed()
        if self._ranker is not None:
            self._ranker.committed()

    def rollback(self) -> None:
        """Roll back the open transaction, if there is one."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._open = False
        if self.link is not None:
            self.link.rolled_back()
        self.records.reset()
        self.inbox.reset()
        for table in self._tables.values():
            table.reset()
        self.refresh_features()
        if self._ranker is not None:
            self._ranker.undone()

    @contextmanager
    def transaction(self) -> Iterator["Store"]:
        """Run the block in a transaction that commits at the end and rolls back on an error."""
        self.begin()
        try:
            yield self
            self.commit()
        finally:
            if self._open:
                self.rollback()

    @contextmanager
    def trial(self) -> Iterator["Store"]:
        """Run the block in a transaction that is rolled back at the end."""
        self.begin()
        try:
            yield self
        finally:
            self.rollback()

    def bounded_search(self) -> BoundedSearch:
        """Run a search in the block: bring the indexes up to date, then limit the time of reads.

        Writes come first, because an interrupted write would undo the transaction.
        """
        self.records.prepare_search()
        return self.time_limit.bounded()

    def count_lost_commits(self, acknowledged: str) -> int:
        """Return how many acknowledged commits are missing, by the last mark that the bus knows."""
        return lost_commits(acknowledged, self.commits.mark)

    def probe(self) -> None:
        """Check that the store can be written to and is still the file at its path.

        Truncate a log that grew while another program read the store. Raises StoreBusy or
        StoreBroken.
        """
        with translate_errors(self.path):
            self._check_in_place()
            self._connection.execute("BEGIN IMMEDIATE; ROLLBACK")
            if os.stat(self._log).st_size > MAX_LOG_BYTES:
                self.checkpoint()

    def checkpoint(self) -> None:
        """Move the log into the file and empty it, unless a reader needs it. Raises StoreBusy."""
        with translate_errors(self.path):
            self._check_in_place()
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def release_pages(self) -> None:
        """Free the pages that SQLite keeps in memory. It reads them again when they are needed."""
        self._connection.release_memory()

    def _check_in_place(self) -> None:
        """Raise StoreBroken if the file is no longer at its path: writes would be lost on close."""
        inode = inode_of(self.path)
        if inode != self._inode:
            raise StoreBroken(
                f"{self.path} was {'replaced' if inode else 'removed'} while a worker had it open, "
                "and nothing more is written; put it back, or stop the worker before you replace "
                "the file"
            )
        if inode_of(self._log) != self._log_inode:
            raise StoreBroken(
                f"{self._log}, the log of a store, was removed or replaced while a worker had it "
                "open, and nothing more is written; stop the worker normally, which moves the log "
                "into the store, and start it again"
            )

    def structural_faults(self) -> list[str]:
        """Check the whole file and return its faults."""
        return structural_faults(self._connection)

    def rewrite(self) -> None:
        """Rewrite the file and its log without deleted data. Raises StoreBusy."""
        # A rewrite drops its temporary tables.
        self._drop_ranker()
        with translate_errors(self.path):
            self.erasures.rewrite()

    def give_up(self, reason: str) -> MemoryFault:
        """Close the damaged file unchanged, write a damage note, and return the error to raise."""
        self._close_unchanged()
        return found_damaged(Path(self.path), reason)

    @property
    def meaning(self) -> "SemanticResources | None":
        """Return the access to the embedder, None if searches match words only."""
        return self._meaning

    @property
    def ranker(self) -> "Ranker":
        """Return the ranker of the records, created by the first search that ranks.

        A worker that never ranks saves its memory.
        """
        if self._ranker is None:
            with self.time_limit.paused():
                self._ranker = self._load_ranker()
        return self._ranker

    def _load_ranker(self) -> "Ranker":
        # Loaded here, because numpy and the stemmer take 20 MB of a worker's memory.
        from memrelay.memory.search.ranker import Ranker

        return Ranker(
            self._connection, self.records, self.vectors, self._meaning, self.time_limit.paused
        )

    def _drop_ranker(self) -> None:
        if self._ranker is not None:
            self._ranker.close()
            self._ranker = None

    def _close_unchanged(self) -> None:
        self._drop_ranker()
        keep_log(self._connection, True)
        self._connection.close(True)

    def close(self) -> None:
        """Checkpoint and close the file. An open transaction is rolled back."""
        self._drop_ranker()
        self._connection.close()


# The name that operations use for a store with an open transaction.
Transaction = Store

"""A store: one SQLite file at a `memory_id`, and its transaction."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from memrelay.memory.disk import inode_of
from memrelay.memory.errors import MemoryFault, StoreBroken, StoreFenced
from memrelay.memory.sqlite.connection import CommitCount, lost_commits, open_store_file, translated
from memrelay.memory.sqlite.damage import (
    condemned_where_damaged,
    found_damaged,
    keep_log,
    structural_faults,
)
from memrelay.memory.sqlite.erasures import Erasures
from memrelay.memory.sqlite.fulltext import Segments
from memrelay.memory.sqlite.inbox import Inbox, PendingTable
from memrelay.memory.sqlite.memories import EntryTable, MemoryTable
from memrelay.memory.sqlite.records import RecordTable
from memrelay.memory.sqlite.transfer import Imports
from memrelay.memory.sqlite.vectors import VectorTable

if TYPE_CHECKING:
    from memrelay.memory.search.pool import Meaning
    from memrelay.memory.search.ranker import Ranker


class Store:
    """An open store file; for one thread. Operations receive it as `tx`, inside `begin` and
    `commit`."""

    def __init__(self, memory_id: str, path: Path, meaning: "Meaning | None" = None) -> None:
        """Opens the file, or makes it; it has no owner before `take_over`. Raises StoreBroken or
        StoreBusy.

        Without `meaning` searches know words alone.
        """
        self.memory_id, self.path, self._epoch, self._meaning = memory_id, str(path), 0, meaning
        self._connection = open_store_file(path)
        self._open = False
        self._ranker: Ranker | None = None  # from the first search that ranks
        self._inode, self._log, self._log_inode = inode_of(path), f"{path}-wal", 0
        try:
            with translated(self.path), condemned_where_damaged(path):
                self.records = RecordTable(self._connection)
                self.inbox = Inbox(self._connection)
                self.pending = PendingTable(self._connection)
                self.commits = CommitCount(self._connection)
                self.vectors, self.segments = (
                    VectorTable(self._connection),
                    Segments(self._connection),
                )
                self.memories, self.entries = (
                    MemoryTable(self._connection),
                    EntryTable(self._connection),
                )
                self.imports = Imports(self._connection, self.records, self.memories)
                self.erasures = Erasures(self._connection, self.records, self.inbox)
                self._log_inode = inode_of(self._log)  # there since the first read
        except MemoryFault:
            self._leave()
            raise

    def take_over(self, epoch: int, *, held: bool = False) -> None:
        """Belongs to the owner of that epoch from now on, and no more to an earlier one. Raises
        StoreFenced and StoreBusy.

        `held`: it was this owner's under that epoch already. Else whom the file has under the same
        one is another: where the
        bus has forgotten its epochs it gives them again.
        """
        self._forget_ranker()
        self.begin(epoch if held else epoch - 1)
        try:
            with translated(self.path):
                for table in (self.records, self.inbox, self.commits):
                    table.reset()  # the owner before may have written since they were read
                self._connection.execute(
                    "UPDATE fence SET epoch = ? WHERE epoch < ?", (epoch, epoch)
                )
                self._connection.execute(
                    "COMMIT"
                )  # not counted, or the first commit that was lost would not be missed
            self._open = False
        finally:
            if self._open:
                self.rollback()
        self._epoch = epoch

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._open

    def begin(self, most: int | None = None) -> None:
        """Takes the write lock now, so that nothing fails on it later. Raises StoreBusy, and
        StoreFenced.

        `most` is the latest epoch that who takes the store over may find in it; an owner may find
        none after its own.
        """
        looks = bool(self._epoch) or most is not None
        most = self._epoch if most is None else most
        with translated(self.path):
            self._look_in_place()
            self._connection.execute("BEGIN IMMEDIATE")
            found = self._connection.execute("SELECT epoch FROM fence").get if looks else 0
        self._open = True
        if found > most:
            self.rollback()
            raise StoreFenced(self.path, found)

    def commit(self) -> None:
        """Writes what waits and makes it durable; raises StoreBusy, after which only `rollback` is
        left."""
        with translated(self.path):
            self.records.complete()
            self.inbox.complete()
            self.commits.complete()
            self._connection.execute("COMMIT")
        self.commits.committed()
        self._open = False
        if self._ranker is not None:
            self._ranker.committed()

    def rollback(self) -> None:
        """Undoes the open transaction, if there is one."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._open = False
        self.records.reset()
        self.inbox.reset()
        if self._ranker is not None:
            self._ranker.undone()

    @contextmanager
    def transaction(self) -> Iterator["Store"]:
        """Begins, and commits at the end, or undoes everything where something is raised."""
        self.begin()
        try:
            yield self
            self.commit()
        finally:
            if self._open:
                self.rollback()

    def lacks(self, told: str) -> int:
        """How many commits this store lacks of those that the bus was told of, the last by a
        mark."""
        return lost_commits(told, self.commits.mark)

    def probe(self) -> None:
        """Whether it could be written to now, and is still the file at its path. Raises StoreBusy
        or StoreBroken."""
        with translated(self.path):
            self._look_in_place()
            self._connection.execute("BEGIN IMMEDIATE; ROLLBACK")

    def _look_in_place(self) -> None:
        """Raises StoreBroken where the file is at its path no more: what is written then is gone
        when it is closed."""
        there = inode_of(self.path)
        if there != self._inode:
            raise StoreBroken(
                f"{self.path} was {'replaced' if there else 'taken away'} while a worker has it open, and "
                "nothing is written any more; put it back, or stop the worker before another file is put there"
            )
        if inode_of(self._log) != self._log_inode:
            raise StoreBroken(
                f"{self._log}, the log of a store, was taken away or replaced while a worker has it open, and "
                "nothing is written any more; stop the worker in order, which takes what it has over into the "
                "store, and start it again"
            )

    def structural_faults(self) -> list[str]:
        """What a check of the whole file finds."""
        return structural_faults(self._connection)

    def rewrite(self) -> None:
        """Rewrites the file, so that nothing of what was deleted is in it, or in its log. Raises
        StoreBusy."""
        self._forget_ranker()  # temporary tables of its own go with it
        with translated(self.path):
            self.erasures.rewrite()

    def give_up(self, reason: str) -> MemoryFault:
        """Closes the file as it is, with a note on what is wrong where the disk gives it, and
        returns what is to be raised."""
        self._leave()
        return found_damaged(Path(self.path), reason)

    @property
    def meaning(self) -> "Meaning | None":
        """Who makes vectors of what is asked; None where words alone are known."""
        return self._meaning

    @property
    def ranker(self) -> "Ranker":
        """What ranks its records, made at the first search that asks for it. Heavy: a worker that
        never does stays small."""
        if self._ranker is None:
            from memrelay.memory.search.ranker import (
                Ranker,  # numpy and the stemmer take 20 MB of a worker's 70
            )

            self._ranker = Ranker(self._connection, self.records, self.vectors, self._meaning)
        return self._ranker

    def _forget_ranker(self) -> None:
        if self._ranker is not None:
            self._ranker.close()
            self._ranker = None

    def _leave(self) -> None:
        self._forget_ranker()
        keep_log(self._connection, True)
        self._connection.close(True)

    def close(self) -> None:
        """Checkpoints and closes the file; an open transaction is undone."""
        self._forget_ranker()
        self._connection.close()


Transaction = Store  # what operations call it: a store whose transaction is open

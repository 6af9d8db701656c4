"""A store: one SQLite file at a `memory_id`, and its transaction."""
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from memory.errors import StoreFenced
from memory.sqlite.connection import open_store_file, translated
from memory.sqlite.inbox import Inbox
from memory.sqlite.pending import PendingTable
from memory.sqlite.records import RecordTable


class Store:
    """An open store file; for one thread. Operations receive it as `tx`, inside `begin` and `commit`."""

    def __init__(self, memory_id: str, path: Path, epoch: int = 0) -> None:
        """Opens the file, or makes it, for the owner of that epoch, if any. Raises StoreBroken, StoreBusy or StoreFenced."""
        self.memory_id, self.path, self._epoch = memory_id, str(path), epoch
        self._connection = open_store_file(path)
        with translated(self.path):
            self.records = RecordTable(self._connection)
            self.inbox = Inbox(self._connection)
            self.pending = PendingTable(self._connection)
        self._open = False
        if epoch:
            self._take_over_or_close(epoch)

    def _take_over_or_close(self, epoch: int) -> None:
        with ExitStack() as undo:
            undo.callback(self.close)
            self.take_over(epoch)
            undo.pop_all()

    def take_over(self, epoch: int) -> None:
        """Belongs to the owner of that epoch from now on, and no more to an earlier one. Raises StoreFenced and StoreBusy."""
        with self.transaction(epoch), translated(self.path):
            self._connection.execute("UPDATE fence SET epoch = ? WHERE epoch < ?", (epoch, epoch))
            self.records.reset()   # the owner before may have written since they were read
            self.inbox.reset()
        self._epoch = epoch

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._open

    def begin(self, epoch: int | None = None) -> None:
        """Takes the write lock now, so that nothing fails on it later. Raises StoreBusy, and StoreFenced.

        `epoch` is that of who takes the store over, else it is the owner's.
        """
        epoch = self._epoch if epoch is None else epoch
        with translated(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            found = self._connection.execute("SELECT epoch FROM fence").get if epoch else 0
        self._open = True
        if found > epoch:
            self.rollback()
            raise StoreFenced(self.path, found)

    def commit(self) -> None:
        """Writes what waits and makes it durable; raises StoreBusy, after which only `rollback` is left."""
        with translated(self.path):
            self.records.complete()
            self.inbox.complete()
            self._connection.execute("COMMIT")
        self._open = False

    def rollback(self) -> None:
        """Undoes the open transaction, if there is one."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._open = False
        self.records.reset()
        self.inbox.reset()

    @contextmanager
    def transaction(self, epoch: int | None = None) -> Iterator["Store"]:
        """Begins, and commits at the end, or undoes everything where something is raised."""
        self.begin(epoch)
        try:
            yield self
            self.commit()
        finally:
            if self._open:
                self.rollback()

    def close(self) -> None:
        """Checkpoints and closes the file; an open transaction is undone."""
        self._connection.close()


Transaction = Store   # what operations call it: a store whose transaction is open

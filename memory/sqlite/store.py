"""A store: one SQLite file at a `memory_id`, and its transaction."""
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory.sqlite.connection import open_store_file, translated
from memory.sqlite.inbox import Inbox
from memory.sqlite.pending import PendingTable
from memory.sqlite.records import RecordTable


class Store:
    """An open store file; for one thread. Operations receive it as `tx`, inside `begin` and `commit`."""

    def __init__(self, memory_id: str, path: Path) -> None:
        """Opens the file, or makes it. Raises StoreBroken or StoreBusy."""
        self.memory_id, self.path = memory_id, str(path)
        self._connection = open_store_file(path)
        with translated(self.path):
            self.records = RecordTable(self._connection)
            self.inbox = Inbox(self._connection)
            self.pending = PendingTable(self._connection)
        self._open = False

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._open

    def begin(self) -> None:
        """Takes the write lock now, so that nothing fails on it later. Raises StoreBusy."""
        with translated(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
        self._open = True

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
    def transaction(self) -> Iterator["Store"]:
        """Begins, and commits at the end, or undoes everything where something is raised."""
        self.begin()
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

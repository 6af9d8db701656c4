"""Connects an open store with its journal."""

import secrets
from collections.abc import Callable, Sequence

import apsw

from memrelay.memory.errors import StoreBusy, StoreFenced
from memrelay.memory.journal.patches import Patch, Position, Recorder, write_position
from memrelay.memory.journal.postgres import Commit, Entry

Append = Callable[[Sequence["Link"]], None]


class Link:
    """Records each transaction of a store, and appends it to the journal before its commit.

    `entry` is that of the store, whose file is up to date. Without `is_owner`, it is only read.
    """

    def __init__(self, store: str, entry: Entry, append: Append, *, is_owner: bool) -> None:
        self.store, self.epoch = store, entry.epoch if is_owner else 0
        # The size of the patches after the last snapshot.
        self.unsaved = entry.bytes
        self._position, self._schema, self._append = entry.position, entry.schema, append
        self._next: Position | None = None
        # Whether the file lacks a commit that the journal may have: it must be opened again.
        self.is_outdated = False
        self._connection: apsw.Connection
        self._recorder: Recorder

    def attach(self, connection: apsw.Connection) -> None:
        """Use the connection of the store. Its commits need no fsync: the journal has them."""
        connection.pragma("synchronous", "NORMAL")
        self._connection, self._recorder = connection, Recorder(connection)

    @property
    def is_appended(self) -> bool:
        """Whether the journal has the open transaction."""
        return self._next is not None

    def begin(self) -> None:
        """Record the transaction that is about to begin. Raises StoreBusy for an outdated file."""
        if self.is_outdated:
            raise StoreBusy(f"{self.store} waits for PostgreSQL (storage.url); it is retried")
        self._recorder.begin()

    def append(self) -> None:
        """Append the open transaction, which is complete. Raises StoreBusy and StoreFenced."""
        self._append([self])

    def pack(self) -> Commit:
        """Return the open transaction as a commit."""
        if not self.epoch:
            raise StoreFenced(self.store, 0)
        generation, n, _ = self._position
        self._next = Position(generation, n + 1, secrets.token_hex(8))
        write_position(self._connection, self._next)
        patch = Patch(n + 1, self._next.mark, self._schema, self._recorder.changes())
        return Commit(self.store, self.epoch, generation, patch)

    def committed(self) -> None:
        """Note that the file has the appended transaction."""
        if self._next is not None:
            self._position, self._next = self._next, None
        self._recorder.end()

    def rolled_back(self) -> None:
        """Forget the open transaction."""
        self.is_outdated |= self.is_appended
        self._next = None
        self._recorder.end()

"""Continuations that a store keeps: messages derived in one of its transactions, to be run as inputs of their own."""
from collections.abc import Iterable
from typing import NamedTuple

import apsw


class Pending(NamedTuple):
    """A message for one agent, to be run at `due` (Unix ms)."""

    id: str         # deterministic: the input's id and the way through the cascade
    pipeline: str
    bundle: str
    agent: str      # the alias of the one agent that it is for
    swarm: str
    hop: int
    data: bytes     # the envelope
    root: str       # the id of the input that it all began with
    reply: str      # the channel that awaits the end of the cascade, or ""
    due: int
    attempts: int = 0


class PendingTable:
    """Reads and writes continuations inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        """The table of one store."""
        self._connection = connection

    def add(self, pending: Pending) -> None:
        """Keeps a continuation; the same one twice is one."""
        self._connection.execute("INSERT OR IGNORE INTO pending VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", pending)

    def remove(self, idents: Iterable[str]) -> None:
        """These have run, and what they led to is committed where it belongs."""
        self._connection.executemany("DELETE FROM pending WHERE id = ?", [(ident,) for ident in idents])

    def all(self) -> list[Pending]:
        """Everything that waits, in the order in which it is due."""
        return list(map(Pending._make, self._connection.execute("SELECT * FROM pending ORDER BY due, rowid")))

"""What a store keeps to be run as inputs of their own: continuations, and messages that are to be
tried again later."""

from collections.abc import Iterable
from typing import NamedTuple

import apsw


class Pending(NamedTuple):
    """A message to be run at `due` (Unix ms)."""

    id: str  # deterministic: the input's id and the way through the cascade
    pipeline: str
    bundle: str
    agent: str  # the alias of the one agent that it is for; "" where it is said on the swarm
    swarm: str
    hop: int
    data: bytes  # the envelope
    root: str  # the id of the input that it all began with
    reply: str  # the channel that awaits the end of the cascade, or ""
    due: int
    attempts: int = 0  # that ended with being put off
    producer: str = ""  # the id that its producer gave it
    heard: int = (
        0  # 1 where it was published on the channel by who said it, 2 where it was said in public
    )


class PendingTable:
    """Reads and writes continuations inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        """The table of one store."""
        self._connection = connection

    def add(self, pending: Pending) -> None:
        """Keeps a continuation; the same one twice is one."""
        self._connection.execute(
            "INSERT OR IGNORE INTO pending VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", pending
        )

    def find(self, ident: str) -> Pending | None:
        """What is kept under this id."""
        found = self._connection.execute("SELECT * FROM pending WHERE id = ?", (ident,)).fetchone()
        return Pending._make(found) if found else None

    def put_off(self, pending: Pending) -> None:
        """One that is kept already has another due time, and an attempt more."""
        self._connection.execute(
            "UPDATE pending SET due = ?, attempts = ? WHERE id = ?",
            (pending.due, pending.attempts, pending.id),
        )

    def remove(self, idents: Iterable[str]) -> None:
        """These have run, and what they led to is committed where it belongs."""
        self._connection.executemany(
            "DELETE FROM pending WHERE id = ?", [(ident,) for ident in idents]
        )

    def all(self) -> list[Pending]:
        """Everything that waits, in the order in which it is due."""
        return list(
            map(
                Pending._make, self._connection.execute("SELECT * FROM pending ORDER BY due, rowid")
            )
        )

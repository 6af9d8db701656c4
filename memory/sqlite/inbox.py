"""The inbox of a store: which inputs are done, and what was answered, for as long as they can come
back."""

from collections.abc import Iterable
from typing import NamedTuple

import apsw

from memrelay.memory.sqlite.rows import RowInsert

SOME = 5000
INSERT = RowInsert("inbox", "id, bundle, outputs", "n")


class Done(NamedTuple):
    """What is kept of an input: the bundle version that it ran under and what goes out, again on a
    replay."""

    bundle: str
    outputs: bytes


class Inbox:
    """Marks inputs as done inside the store's open transaction. Few rows live at a time, so their
    ids are kept in memory."""

    def __init__(self, connection: apsw.Connection) -> None:
        """The inbox as it was committed last."""
        self._connection = connection
        self.numbers: dict[
            str, int
        ] = {}  # ids of the inputs that are done and may come back -> n; of this transaction too
        self._new: list[tuple[int, str, str, bytes]] = []  # waiting to be inserted
        self._last = 0
        self.reset()

    def reset(self) -> None:
        """As it was committed last: after a rollback, and at the beginning."""
        self._new.clear()
        self.numbers = {
            ident: number
            for number, ident in self._connection.execute("SELECT n, id FROM inbox ORDER BY n")
        }
        self._last = max(self.numbers.values(), default=0)

    def find(self, ident: str) -> Done | None:
        """What an input led to, where it is done."""
        number = self.numbers.get(ident)
        if number is None:
            return None
        self._flush()
        return Done(
            *self._connection.execute(
                "SELECT bundle, outputs FROM inbox WHERE n = ?", (number,)
            ).get
        )

    def add(self, ident: str, bundle: str, outputs: bytes) -> None:
        """An input is done with this transaction."""
        self._last = self.numbers[ident] = self._last + 1
        self._new.append((self._last, ident, bundle, outputs))

    def forget(self, idents: list[str]) -> None:
        """These inputs cannot come back: their entries are acknowledged and deleted."""
        numbers = [number for ident in idents if (number := self.numbers.pop(ident, 0))]
        if not numbers:
            return
        self._flush()
        if numbers[-1] - numbers[0] + 1 == len(numbers) and numbers == sorted(numbers):
            self._connection.execute(
                "DELETE FROM inbox WHERE n BETWEEN ? AND ?", (numbers[0], numbers[-1])
            )
        else:
            self._connection.executemany(
                "DELETE FROM inbox WHERE n = ?", [(number,) for number in numbers]
            )

    def produced(self, producer_id: str) -> Done | None:
        """What a message led to that carried this id of its producer's."""
        found = self._connection.execute(
            "SELECT bundle, outputs FROM producer_ids WHERE id = ?", (producer_id,)
        ).fetchone()
        return Done(*found) if found else None

    def add_produced(self, producer_id: str, done: Done, now_ms: int) -> None:
        """Keeps the id that a producer gave its message, with what the message led to."""
        self._connection.execute(
            "INSERT OR IGNORE INTO producer_ids VALUES (?, ?, ?, ?)", (producer_id, *done, now_ms)
        )

    def produced_in(self, pipeline: str, first: str = "") -> list[tuple[str, Done, int]]:
        """(id, what the message led to, Unix ms) of some that are kept of a pipeline's producers,
        from an id of theirs on."""
        span = (f"{pipeline}/{first}", f"{pipeline}0")  # 0 is what comes after /
        rows = self._connection.execute(
            "SELECT id, bundle, outputs, done_at FROM producer_ids WHERE id >= ? AND id < ? LIMIT ?",
            (*span, SOME),
        )
        return [(ident, Done(bundle, outputs), done_at) for ident, bundle, outputs, done_at in rows]

    def forget_produced(self, producer_ids: Iterable[str]) -> None:
        """These ids are kept elsewhere."""
        self._connection.executemany(
            "DELETE FROM producer_ids WHERE id = ?", [(ident,) for ident in producer_ids]
        )

    def expire_produced(self, before_ms: int) -> None:
        """Forgets producers' ids from before a time."""
        self._connection.execute("DELETE FROM producer_ids WHERE done_at < ?", (before_ms,))

    def count_attempt(self, ident: str) -> int:
        """Journals that an input is about to be tried, and says how often it has been."""
        self._connection.execute(
            "INSERT INTO attempts VALUES (?, 1) ON CONFLICT(id) DO UPDATE SET started = started + 1",
            (ident,),
        )
        return int(
            self._connection.execute("SELECT started FROM attempts WHERE id = ?", (ident,)).get
        )

    def was_tried(self, ident: str) -> bool:
        """Whether an attempt of an input is journaled."""
        return (
            self._connection.execute("SELECT 1 FROM attempts WHERE id = ?", (ident,)).get
            is not None
        )

    def clear_attempts(self) -> None:
        """Whatever was in flight has an outcome now."""
        self._connection.execute("DELETE FROM attempts")

    def complete(self) -> None:
        """The table as the commit wants it."""
        self._flush()

    def _flush(self) -> None:
        if self._new:
            INSERT.run(self._connection, self._new)
            self._new.clear()


# What a store keeps to be run as inputs of their own: continuations, and messages that are to be
# tried again later.


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

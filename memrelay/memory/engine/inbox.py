"""The inbox of a store: completed inputs and their replies, kept while a redelivery is possible.
Also its pending messages.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import apsw

from memrelay.memory.engine.idempotency import IdempotencyKeys
from memrelay.memory.engine.rows import RowInsert

# How long the result of a deferred call is kept for the replay of a dead letter.
PARKED_MS = 30 * 86_400_000
# Suffix of the key of a deferred call among the attempts. Its input has the key without it.
DEFERRED_CALL_SUFFIX = ".errand"
# Suffix of the key of a pending input that waits for a retry after its entry was acknowledged.
RETRY_SUFFIX = ".again"
# In the data of a message with fields that a block or the ingress vouches for.
VOUCHED = b'"vouched":'
OF_INPUTS = f"FROM attempts WHERE id NOT LIKE '%{DEFERRED_CALL_SUFFIX}'"
INSERT = RowInsert("inbox", "id, bundle, outputs", "n")


class Done(NamedTuple):
    """A completed input: the bundle version that processed it, and the outputs that a replay sends
    again.
    """

    bundle: str
    outputs: bytes


class Inbox:
    """Marks inputs as done inside the store's open transaction.

    Few rows exist at a time, so their ids are kept in memory.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.keys = IdempotencyKeys(connection)
        # Row number by id of each completed input that may be redelivered, with those of the open
        # transaction.
        self.numbers: dict[str, int] = {}
        # Rows to insert.
        self._new: list[tuple[int, str, str, bytes]] = []
        self._last_number = 0
        self.reset()

    def reset(self) -> None:
        """Read the committed state, initially and after a rollback."""
        self._new.clear()
        self.keys.reset()
        self.numbers = {
            ident: number
            for number, ident in self._connection.execute("SELECT n, id FROM inbox ORDER BY n")
        }
        self._last_number = max(self.numbers.values(), default=0)

    def find(self, ident: str) -> Done | None:
        """Return the outcome of an input, None if it is not done."""
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
        """Mark an input as done in this transaction."""
        self._last_number = self.numbers[ident] = self._last_number + 1
        self._new.append((self._last_number, ident, bundle, outputs))

    def forget(self, idents: list[str]) -> None:
        """Delete inputs that cannot be redelivered: their entries are acknowledged and deleted."""
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

    def count_attempts(self, idents: Iterable[str], by: int = 1) -> None:
        """Record that inputs are about to be tried. `by` is the weight of the attempt."""
        self._connection.executemany(
            "INSERT INTO attempts VALUES (?1, ?2) "
            "ON CONFLICT(id) DO UPDATE SET started = started + ?2",
            [(ident, by) for ident in idents],
        )

    def attempts(self) -> dict[str, int]:
        """Return the recorded attempts by input."""
        return dict(self._connection.execute("SELECT id, started FROM attempts"))

    def count_deferred_call_attempts(self, weights: Mapping[str, int]) -> dict[str, int]:
        """Record that calls are about to be repeated after a crash, by id with the weight of the
        crash. Return the sum of the weights, by id.

        Attempts of deferred calls that no longer exist are deleted.
        """
        keys = {ident: ident + DEFERRED_CALL_SUFFIX for ident in weights}
        self._connection.execute(
            f"DELETE FROM attempts WHERE id LIKE '%{DEFERRED_CALL_SUFFIX}' AND id NOT IN "
            f"(SELECT id || '{DEFERRED_CALL_SUFFIX}' FROM pending)"
        )
        for ident, key in keys.items():
            self.count_attempts([key], weights[ident])
        counts = self.attempts()
        return {ident: counts[key] for ident, key in keys.items()}

    def clear_deferred_call_attempts(self, ident: str) -> None:
        """Delete the attempts of a deferred call that has a result."""
        self._connection.execute(
            "DELETE FROM attempts WHERE id = ?", (ident + DEFERRED_CALL_SUFFIX,)
        )

    def has_attempts(self) -> bool:
        """Return whether an attempt of an input is recorded."""
        return self._connection.execute(f"SELECT 1 {OF_INPUTS} LIMIT 1").get is not None

    def clear_attempts(self) -> None:
        """Delete all attempts of inputs: every input in flight has an outcome now."""
        self._connection.execute(f"DELETE {OF_INPUTS}")

    def complete(self) -> None:
        """Insert the buffered rows before the commit."""
        self._flush()
        self.keys.complete()

    def _flush(self) -> None:
        if self._new:
            INSERT.run(self._connection, self._new)
            self._new.clear()


# Pending messages run as separate inputs: continuations, and messages to retry later.


class Pending(NamedTuple):
    """A message to run at `due`, Unix ms.

    A negative `due` marks the message of a dead letter, whose replay needs the `result` or the
    vouched fields. It is parked since -`due`.
    """

    # Deterministic: the input's id and the path through the cascade.
    id: str
    pipeline: str
    bundle: str
    # Alias of the one agent that it is addressed to, "" for the swarm.
    agent: str
    swarm: str
    hop: int
    # The envelope.
    data: bytes
    # Id of the input that started the cascade.
    root: str
    # Channel that awaits the end of the cascade, "" for none.
    reply: str
    due: int
    # Number of attempts that were postponed.
    attempts: int = 0
    # Idempotency key of the producer.
    producer: str = ""
    # 1 if its sender published it on the channel, 2 if it was published to a public swarm.
    published: int = 0
    # The deferred call for which it waits, as JSON; None if it waits for none.
    request: bytes | None = None
    # The result of the deferred call as JSON; None while the deferred call is open.
    result: bytes | None = None
    # The key under which it waits because of its agent's `wf_flow` (flow.py); None if it does not.
    flow: bytes | None = None

    @property
    def is_deferred_call(self) -> bool:
        """Return whether a deferred call is open."""
        return self.request is not None and self.result is None

    @property
    def texts(self) -> tuple[bytes, ...]:
        """Return everything that may quote a record."""
        keys = self.id.encode(), self.producer.encode()
        return *keys, self.data, self.request or b"", self.result or b""

    @property
    def deferred_call_id(self) -> str:
        """Return the id of its deferred call, which is the same after a replay and a retry."""
        return self.id.removesuffix(RETRY_SUFFIX)


COLUMNS = (
    "id, pipeline, bundle, agent, swarm, hop, data, root, reply, due, attempts, producer, heard, "
    "request, result, flow"
)
ADD = f"INSERT OR IGNORE INTO pending({COLUMNS}) VALUES ({', '.join('?' * len(Pending._fields))})"
SELECT_PENDING = f"SELECT {COLUMNS} FROM pending"


class PendingTable:
    """Reads and writes pending messages inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def add(self, pending: Pending) -> None:
        """Insert a pending message unless its id exists."""
        self._connection.execute(ADD, pending)

    def find(self, ident: str) -> Pending | None:
        """Return the pending message with that id, None if it does not exist."""
        found = self._connection.execute(f"{SELECT_PENDING} WHERE id = ?", (ident,)).fetchone()
        return Pending._make(found) if found else None

    def has_cascade(self, pipeline: str, root: str) -> bool:
        """Return whether a message of the cascade that the input `root` started is pending. Those
        that wait because of `wf_flow` do not count.
        """
        return (
            self._connection.execute(
                "SELECT 1 FROM pending WHERE pipeline = ? AND root = ? AND due >= 0 "
                "AND flow IS NULL",
                (pipeline, root),
            ).get
            is not None
        )

    def put_off(self, pending: Pending) -> None:
        """Update the due time and the attempts of a pending message."""
        self._connection.execute(
            "UPDATE pending SET due = ?, attempts = ? WHERE id = ?",
            (pending.due, pending.attempts, pending.id),
        )

    def keep_result(self, pending: Pending) -> bool:
        """Store the result of a deferred call, and that its continuation has not been tried.

        Return whether the row exists.
        """
        self._connection.execute(
            "UPDATE pending SET result = ?, due = ?, attempts = 0 WHERE id = ?",
            (pending.result, pending.due, pending.id),
        )
        return bool(self._connection.changes())

    def remove(self, idents: Iterable[str]) -> None:
        """Delete pending messages whose outcome is committed."""
        self._connection.executemany(
            "DELETE FROM pending WHERE id = ?", [(ident,) for ident in idents]
        )

    def park(self, idents: Iterable[str], now_ms: int) -> None:
        """Keep the results of deferred calls and the vouched fields for replays of dead letters.
        Delete the other messages.
        """
        keys = [(ident,) for ident in idents]
        run_many = self._connection.executemany
        run_many(
            "DELETE FROM pending WHERE id = ? AND result IS NULL AND instr(data, ?) = 0",
            [(ident, VOUCHED) for (ident,) in keys],
        )
        run_many(f"UPDATE pending SET due = {-now_ms} WHERE id = ?", keys)

    def delete_parked(self, now_ms: int) -> int:
        """Delete messages that were parked long ago. Return their number."""
        self._connection.execute(
            "DELETE FROM pending WHERE due < 0 AND due >= ?", (PARKED_MS - now_ms,)
        )
        return self._connection.changes()

    def next_expiry_ms(self) -> int | None:
        """Return when the next parked message is to be deleted, Unix ms. None if there is none."""
        newest = self._connection.execute("SELECT max(due) FROM pending WHERE due < 0").get
        return None if newest is None else PARKED_MS - int(newest)

    def find_parked(self, ident: str) -> list[Pending]:
        """Return the parked messages of an input: its own, and that of its retry."""
        found = self._connection.execute(
            f"{SELECT_PENDING} WHERE id IN (?, ?) AND due < 0", (ident, ident + RETRY_SUFFIX)
        )
        return list(map(Pending._make, found))

    def all(self) -> list[Pending]:
        """Return all pending messages by due time, without parked ones and those that wait because
        of `wf_flow`.
        """
        found = self._connection.execute(
            f"{SELECT_PENDING} WHERE due >= 0 AND flow IS NULL ORDER BY due, n"
        )
        return list(map(Pending._make, found))

    def list_waiting_agents(self) -> list[tuple[str, str]]:
        """Return (pipeline, alias) of each agent with messages that wait because of `wf_flow`."""
        return list(
            self._connection.execute(
                "SELECT DISTINCT pipeline, agent FROM pending WHERE flow IS NOT NULL AND due >= 0"
            )
        )

    def list_waiting(self, pipeline: str, agent: str) -> list[Pending]:
        """Return the messages of an agent that wait because of `wf_flow`, in their order."""
        found = self._connection.execute(
            f"{SELECT_PENDING} WHERE flow IS NOT NULL AND due >= 0 AND pipeline = ? AND agent = ? "
            "ORDER BY n",
            (pipeline, agent),
        )
        return list(map(Pending._make, found))

    def list_waiting_of(self, root: str, most: int) -> list[Pending]:
        """Return the first messages that wait because of `wf_flow`, in their order. With `root`,
        only those of the cascade that this input started.
        """
        which, values = (" AND root = ?", (root,)) if root else ("", ())
        found = self._connection.execute(
            f"{SELECT_PENDING} WHERE flow IS NOT NULL AND due >= 0{which} ORDER BY n LIMIT ?",
            (*values, most),
        )
        return list(map(Pending._make, found))

    def has_any(self) -> bool:
        """Return whether a message is pending."""
        return bool(
            self._connection.execute("SELECT EXISTS (SELECT 1 FROM pending WHERE due >= 0)").get
        )

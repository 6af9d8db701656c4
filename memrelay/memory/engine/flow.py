"""Messages that wait because of their agent's `wf_flow`, and the state of each key."""

from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from memrelay.memory.engine.inbox import SELECT_PENDING, Pending
from memrelay.memory.engine.table import StoreTable

COLUMNS = "key, pipeline, agent, due, starts, free_at"
SELECT = f"SELECT {COLUMNS} FROM flow_keys"
WAITING = "flow = ? AND due >= 0"


class FlowKey(NamedTuple):
    """The state of one key of an agent. All times are Unix ms.

    `due` is when its next message may run, None if none waits. `starts` are the latest runs that
    count for the rate, the oldest first. A key without waiting messages is forgotten at `free_at`.
    """

    key: bytes
    pipeline: str
    agent: str
    due: int | None = None
    starts: tuple[int, ...] = ()
    free_at: int = 0


class FlowTable(StoreTable):
    """Reads and writes keys and their waiting messages inside the store's open transaction.

    A waiting message is a row of `pending` with the key in `flow`. The run of the message removes
    the key, and the row goes as that of any pending message does.
    """

    def find(self, key: bytes) -> FlowKey | None:
        """Return the state of a key, None if it has none."""
        row = self._connection.execute(f"{SELECT} WHERE key = ?", (key,)).fetchone()
        return None if row is None else _make_key(row)

    def put(self, state: FlowKey) -> None:
        """Insert or replace the state of a key."""
        starts = array("q", state.starts).tobytes()
        row = (*state[:4], starts, state.free_at)
        self._connection.execute(
            f"INSERT OR REPLACE INTO flow_keys({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", row
        )

    def count_keys(self, pipeline: str, agent: str) -> int:
        """Return the number of an agent's keys."""
        counted = self._connection.execute(
            "SELECT count(*) FROM flow_keys WHERE pipeline = ? AND agent = ?", (pipeline, agent)
        )
        return int(counted.get)

    def forget_free(self, now_ms: int) -> None:
        """Delete the keys that limit nothing any more."""
        self._connection.execute(
            "DELETE FROM flow_keys WHERE due IS NULL AND free_at <= ?", (now_ms,)
        )

    def forget(self, keys: Iterable[bytes]) -> None:
        """Delete keys."""
        self._connection.executemany(
            "DELETE FROM flow_keys WHERE key = ?", [(key,) for key in keys]
        )

    def list_waiting_keys(self) -> list[FlowKey]:
        """Return the keys with waiting messages, the first due one first."""
        rows = self._connection.execute(f"{SELECT} WHERE due IS NOT NULL ORDER BY due, key")
        return list(map(_make_key, rows))

    def list_waiting(self, key: bytes, most: int) -> Iterator[Pending]:
        """Yield the first waiting messages of a key, in their order."""
        rows = self._connection.execute(
            f"{SELECT_PENDING} WHERE {WAITING} ORDER BY n LIMIT ?", (key, most)
        )
        return map(Pending._make, rows)

    def list_last_dues(self, key: bytes, most: int) -> list[int]:
        """Return the due times of the last waiting messages of a key, the last one first."""
        rows = self._connection.execute(
            f"SELECT due FROM pending WHERE {WAITING} ORDER BY n DESC LIMIT ?", (key, most)
        )
        return [due for (due,) in rows]

    def drop_waiting(self, key: bytes) -> None:
        """Delete the waiting messages of a key."""
        self._connection.execute(f"DELETE FROM pending WHERE {WAITING}", (key,))

    def remove(self, idents: Iterable[str]) -> None:
        """Delete waiting messages."""
        self._connection.executemany(
            "DELETE FROM pending WHERE id = ?", [(ident,) for ident in idents]
        )

    def leave(self, ident: str) -> bool:
        """Note that a message waits no longer. Return whether it did."""
        self._connection.execute(
            "UPDATE pending SET flow = NULL WHERE id = ? AND flow IS NOT NULL", (ident,)
        )
        return bool(self._connection.changes())


def _make_key(row: tuple[bytes, str, str, int | None, bytes, int]) -> FlowKey:
    return FlowKey(*row[:4], tuple(array("q", row[4])), row[5])

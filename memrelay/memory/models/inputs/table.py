"""The rows of kept inputs, and of the results of their deferred calls."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from memrelay.memory.engine.erasures import Erases, ModelErasure
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.models.inputs.packing import KeptInput, pack, unpack

if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store

DAY_MS = 86_400_000
INSERT = "INSERT INTO inputs(first_ms, last_ms, change, data) VALUES (?, ?, ?, ?)"
OLDEST = "SELECT first_ms FROM inputs ORDER BY n LIMIT 1"
# Rows of which `rows` reads the period, at most. That takes about 10 ms.
MAX_ROWS = 20_000
SELECT = (
    f"SELECT n, data FROM inputs WHERE n >= ?1 AND n < ?1 + {MAX_ROWS} "
    "AND last_ms >= ?2 AND first_ms < ?3 ORDER BY n"
)
# Results come behind their input, and soon.
WITH_TIME = (
    f"SELECT n, data FROM inputs WHERE n > (SELECT max(n) FROM inputs) - {MAX_ROWS} "
    "AND first_ms <= ?1 AND last_ms >= ?1"
)
UPDATE = "UPDATE inputs SET data = ? WHERE n = ?"
NEXT = f"SELECT n FROM inputs WHERE n >= ?1 + {MAX_ROWS} ORDER BY n LIMIT 1"


def owner_of(memory_id: str) -> str:
    """Return the uid of the pipeline that has a store, or another text for a shared store."""
    return f"{memory_id}/".split("/")[1]


class InputTable(StoreTable):
    """Adds and reads rows of inputs inside the store's open transaction."""

    READS = ("find_next", "remembers", "rows")

    def __init__(self, store: "Store") -> None:
        super().__init__(store)
        self._keys = store.inbox.keys

    def remembers(self, digest: bytes) -> bool:
        """Return whether the store remembers the idempotency key with this digest."""
        return self._keys.find(digest) is not None

    def add(self, inputs: Sequence[tuple[Any, ...]], change: int, data: bytes) -> None:
        """Add the packed inputs of a batch. Each begins with its time, Unix ms."""
        times = [one[0] for one in inputs]
        self._connection.execute(INSERT, (min(times), max(times), change, data))

    def replace_result(self, ms: int, call_id: str, data: bytes) -> None:
        """Replace the result of a deferred call, if it is kept. `ms` is the time of the input that
        led to the call.
        """
        for n, packed in list(self._connection.execute(WITH_TIME, (ms,))):
            inputs = unpack(packed)
            new = [
                replace(one, result=replace(one.result, data=data))
                if one.result is not None and one.result.call_id == call_id
                else one
                for one in inputs
            ]
            if new != inputs:
                self._connection.execute(UPDATE, (pack(new), n))

    def oldest_ms(self) -> int | None:
        """Return the time of the oldest row, Unix ms. None if there is none."""
        found: int | None = self._connection.execute(OLDEST).get
        return found

    def rows(
        self, first: int, since_ms: int, until_ms: int
    ) -> Iterator[tuple[int, list[KeptInput]]]:
        """Yield (number, inputs) of the rows from number `first` on that may have inputs of the
        period, among MAX_ROWS numbers.
        """
        for n, kept in self.rows_with_results(first, since_ms, until_ms):
            if inputs := [one for one in kept if one.result is None]:
                yield n, inputs

    def rows_with_results(
        self, first: int, since_ms: int, until_ms: int
    ) -> Iterator[tuple[int, list[KeptInput]]]:
        """Yield what `rows` yields, and the results of the deferred calls of these inputs."""
        for n, data in self._connection.execute(SELECT, (first, since_ms, until_ms)):
            yield n, unpack(data)

    def find_next(self, first: int) -> int | None:
        """Return the number of the first row that `rows` does not read, None if there is none."""
        found: int | None = self._connection.execute(NEXT, (first,)).get
        return found


class InputErasure(ModelErasure):
    """Rewrites the rows that quote erased records."""

    def __init__(self, store: "Store") -> None:
        super().__init__(store)
        self._owner = owner_of(store.memory_id)

    def silence(self, has_erased: Erases) -> int:
        """Remove the inputs and results with an erased text, and return their number.

        The results of an input, which come behind it, go with it.
        """
        run, removed, gone = self._connection.execute, 0, set[tuple[str, str]]()
        for (n,) in list(run("SELECT n FROM inputs ORDER BY n")):
            inputs = unpack(run("SELECT data FROM inputs WHERE n = ?", (n,)).get)
            kept = list[KeptInput]()
            for one in inputs:
                if (one.uid, one.id) in gone or any(map(has_erased, self._texts(one))):
                    gone.add((one.uid, one.id))
                else:
                    kept.append(one)
            if len(kept) < len(inputs):
                removed += len(inputs) - len(kept)
                if kept:
                    run(UPDATE, (pack(kept), n))
                else:
                    run("DELETE FROM inputs WHERE n = ?", (n,))
        return removed

    def _texts(self, one: KeptInput) -> tuple[bytes, ...]:
        """Return everything that may quote a record: the key in stores, the data and the id; or
        the key of the call and its result.
        """
        key = f"{one.uid or self._owner}/{one.id}".encode()
        if one.result is not None:
            return key, one.result.call_id.encode(), one.result.data
        return key, one.field(b"data"), one.field(b"id")

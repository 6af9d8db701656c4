"""The report of an import: counts, and each item that was left out with its reason."""

from collections import Counter
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import apsw

from memrelay.memory.importers.items import Fault

INSERT = "INSERT INTO faults(position, reason) VALUES (?, ?)"
SELECT = "SELECT position, reason FROM faults ORDER BY row"
# The first faults of each reason, and after the last of them the number of the others.
SELECT_FIRST = (
    "SELECT position, reason, total, number = ?1 FROM (SELECT row, position, reason, "
    "row_number() OVER (PARTITION BY reason ORDER BY row) AS number, "
    "count(*) OVER (PARTITION BY reason) AS total FROM faults) WHERE number <= ?1 ORDER BY row"
)


class ImportReport:
    """Counts the items of an import. Use it as a context.

    Faults are on disk: a file may have millions of them. A part of an item has a fault of its own
    without being counted.
    """

    def __init__(self) -> None:
        self.counts = Counter[str](read=0, added=0, same=0)
        self.notes: dict[str, None] = {}
        self.samples: list[str] = []

    def __enter__(self) -> Self:
        """Create a temporary database, which SQLite deletes when it is closed."""
        self._connection = apsw.Connection("")
        self._connection.execute(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-2000;"
            "CREATE TABLE faults(row INTEGER PRIMARY KEY, position TEXT, reason TEXT) STRICT; BEGIN"
        ).fetchall()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def leave_out(self, position: str, reason: str) -> None:
        """Count an item that is left out."""
        self.counts["left_out"] += 1
        texts = (one.encode(errors="backslashreplace").decode() for one in (position, reason))
        self._connection.execute(INSERT, tuple(texts))

    def faults(self) -> Iterator[Fault]:
        """Yield all faults in the order in which they were found."""
        return (Fault(*row) for row in self._connection.execute(SELECT))

    def lines(self, first: int) -> Iterator[str]:
        """Yield a text per fault, at most `first` for one reason, and the number of the others."""
        for position, reason, total, is_last in self._connection.execute(SELECT_FIRST, (first,)):
            yield f"{position}: {reason}"
            if is_last and total > first:
                yield f"{total - first:,} more: {reason}"

    def as_json(self) -> dict[str, Any]:
        """Return the report with all faults."""
        faults = [{"position": one.position, "reason": one.reason} for one in self.faults()]
        found: dict[str, Any] = {**self.counts, "left_out": self.counts["left_out"]}
        found["faults"] = faults
        if self.notes:
            found["notes"] = [*self.notes]
        if self.samples:
            found["samples"] = self.samples
        return found

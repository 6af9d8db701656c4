"""The report of an import: counts, and each item that was left out with its reason."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from memrelay.memory.transfer.importers.items import Fault
from memrelay.memory.transfer.importers.scratch import ScratchTable

INSERT = "INSERT INTO faults(position, reason) VALUES (?, ?)"
SELECT = "SELECT position, reason FROM faults ORDER BY row"
# The first faults of each reason, and after the last of them the number of the others.
SELECT_FIRST = (
    "SELECT position, reason, total, number = ?1 FROM (SELECT row, position, reason, "
    "row_number() OVER (PARTITION BY reason ORDER BY row) AS number, "
    "count(*) OVER (PARTITION BY reason) AS total FROM faults) WHERE number <= ?1 ORDER BY row"
)


class ImportReport(ScratchTable):
    """Counts the items of an import, and keeps the faults on disk. Use it as a context.

    A part that is left out, such as an image in a message, counts as an item that was read and left
    out. So `read` is the sum of the other counts.
    """

    create = "CREATE TABLE faults(row INTEGER PRIMARY KEY, position TEXT, reason TEXT) STRICT"

    def __init__(self) -> None:
        self.counts = Counter[str](read=0, added=0, same=0)
        self.notes: dict[str, None] = {}
        self.samples: list[str] = []

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

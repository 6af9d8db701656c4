"""What an import notes on disk, since a file may have millions of items: the report, and the ids
that it has read.
"""

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from types import TracebackType
from typing import Any, ClassVar, Self
from uuid import UUID

import apsw

from memrelay.memory.transfer.importers.items import Fault

CACHE_KIB = 4000
INSERT_FAULT = "INSERT INTO faults(position, reason) VALUES (?, ?)"
SELECT_FAULTS = "SELECT position, reason FROM faults ORDER BY row"
# The first faults of each reason, and after the last of them the number of the others.
SELECT_FIRST_FAULTS = (
    "SELECT position, reason, total, number = ?1 FROM (SELECT row, position, reason, "
    "row_number() OVER (PARTITION BY reason ORDER BY row) AS number, "
    "count(*) OVER (PARTITION BY reason) AS total FROM faults) WHERE number <= ?1 ORDER BY row"
)
SELECT_SEEN = "SELECT digest FROM seen WHERE guid = ?"
INSERT_SEEN = "INSERT INTO seen VALUES (?, ?)"


class ScratchTable:
    """A base of classes that keep rows in a temporary table. Use it as a context."""

    # The statement that creates the table.
    create: ClassVar[str]

    def __enter__(self) -> Self:
        """Create a temporary database, which SQLite deletes when it is closed."""
        self._connection = apsw.Connection("")
        self._connection.execute(
            f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-{CACHE_KIB};"
            f"{self.create}; BEGIN"
        ).fetchall()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()


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
        self._connection.execute(INSERT_FAULT, tuple(texts))

    def faults(self) -> Iterator[Fault]:
        """Yield all faults in the order in which they were found."""
        return (Fault(*row) for row in self._connection.execute(SELECT_FAULTS))

    def lines(self, first: int) -> Iterator[str]:
        """Yield a text per fault, at most `first` for one reason, and the number of the others."""
        for position, reason, total, is_last in self._connection.execute(
            SELECT_FIRST_FAULTS, (first,)
        ):
            yield f"{position}: {reason}"
            if is_last and total > first:
                yield f"{total - first:,} more: {reason}"

    def as_json(self) -> dict[str, Any]:
        """Return the report with all faults."""
        faults = [{"position": one.position, "reason": one.reason} for one in self.faults()]
        report: dict[str, Any] = {**self.counts, "left_out": self.counts["left_out"]}
        report["faults"] = faults
        if self.notes:
            report["notes"] = [*self.notes]
        if self.samples:
            report["samples"] = self.samples
        return report


class SeenItems(ScratchTable):
    """Finds items whose id the file has twice. Use it as a context."""

    create = "CREATE TABLE seen(guid BLOB PRIMARY KEY, digest BLOB NOT NULL) WITHOUT ROWID, STRICT"

    def add(self, guid: str, line: str) -> bool | None:
        """Remember an item. Return None if its id is new, else whether the lines are equal."""
        key, digest = UUID(guid).bytes, blake2b(line.encode(), digest_size=8).digest()
        earlier = self._connection.execute(SELECT_SEEN, (key,)).get
        if earlier is None:
            self._connection.execute(INSERT_SEEN, (key, digest))
            return None
        return bool(earlier == digest)

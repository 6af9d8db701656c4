"""The segments of the full-text indexes: FTS5 writes what is new as one of its own, and a search
looks for each word in all.

While it writes it merges few of them, for that holds the writer up. So they are merged when there
is time, a few pages at once.
"""

import apsw

from memory.sqlite.fulltext import INDEXES

FEW = 4  # segments that are left alone
# the largest is merged with the others once these have a quarter of its pages: each page is written
# some
WORTH = 4
#                   five times while an index grows, whatever its size
PAGES = 16  # merged at once, of 4 kB: some 3 ms, for which a message may have to wait


class Segments:
    """Merges inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        """Nothing is under way."""
        self._connection = connection
        self._merging = ""

    def to_merge(self) -> str:
        """The index that is worth it, or that a merge is under way of; "" for none."""
        return self._merging or next(filter(self._is_worth_it, INDEXES), "")

    def merge(self, index: str) -> bool:
        """Merges some pages of an index; whether there was anything to do."""
        pages = (
            PAGES if self._merging else -PAGES
        )  # below zero begins with all segments, above it goes on
        before = self._connection.total_changes()
        self._connection.execute(f"INSERT INTO {index}({index}, rank) VALUES ('merge', {pages})")
        merged = self._connection.total_changes() - before > 1  # the command itself is one change
        self._merging = index if merged else ""
        return merged

    def _is_worth_it(self, index: str) -> bool:
        sizes = [
            pages
            for (pages,) in self._connection.execute(
                f"SELECT count(*) FROM {index}_idx GROUP BY segid"
            )
        ]
        return len(sizes) > FEW and WORTH * (sum(sizes) - max(sizes)) >= max(sizes)

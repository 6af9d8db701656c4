"""How many transactions a store has committed: the bus is told, so that a store that lost some is
found out."""

import apsw


class CommitCount:
    """Counts inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        """As it was committed last."""
        self._connection = connection
        self._count, self._lineage = 0, ""
        self.reset()

    def reset(self) -> None:
        """As it was committed last."""
        self._count, self._lineage = self._connection.execute("SELECT n, lineage FROM commits").get

    @property
    def mark(self) -> str:
        """What the bus is told of the last commit: where the store comes from, and the number."""
        return f"{self._lineage}:{self._count}"

    def complete(self) -> None:
        """Within the transaction that is about to be committed."""
        self._connection.execute("UPDATE commits SET n = ?", (self._count + 1,))

    def committed(self) -> None:
        """That transaction is on disk."""
        self._count += 1


def lost_commits(told: str, found: str) -> int:
    """How many commits a store lacks that the bus was told of; both are marks, and "" is a bus that
    was told nothing.

    A store that was restored or salvaged since is taken as it is: whoever did that knew what was
    lost. A file that was made
    anew in the place of one that is gone comes from nowhere, and has lost everything.
    """
    lineage, _, count = told.rpartition(":")
    lineage_now, _, count_now = found.rpartition(":")
    if not told or (lineage_now and lineage_now != lineage):
        return 0
    return max(0, int(count) - (int(count_now) if lineage_now == lineage else 0))

"""What happened to the records of a store since somebody looked: what is kept of them in memory is
brought up to date by it."""

from collections.abc import Iterable

MOST = 10_000  # rows, beyond which all is read anew


class Changes:
    """Rows whose record was edited or deleted; not those that were added, which are higher than all
    before."""

    def __init__(self, also: "Changes | None" = None) -> None:
        """None; `also` is told of all that this one is."""
        self.also = also
        self.rows: set[int] = set()
        self.everything = False  # more than can be told
        self.uncommitted = False  # some of them in the transaction that is open

    def __bool__(self) -> bool:
        """Whether there are any."""
        return self.everything or bool(self.rows)

    def add(self, row: int) -> None:
        """A record was edited or deleted."""
        self.uncommitted = True
        self.rows.add(row)
        if self.also is not None:
            self.also.add(row)
        if len(self.rows) > MOST:
            self._give_up()

    def add_some(self, rows: Iterable[int]) -> None:
        """These were."""
        for row in rows:
            self.add(row)

    def add_all(self) -> None:
        """Too many to tell."""
        self._give_up()
        if self.also is not None:
            self.also.add_all()

    def _give_up(self) -> None:
        self.rows.clear()
        self.uncommitted = self.everything = True

    def clear(self) -> None:
        """Somebody has looked."""
        self.rows.clear()
        self.everything = False

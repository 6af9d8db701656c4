"""Many rows for a table: several to a statement, since to run a statement costs as much as one more row in it."""
from collections.abc import Sequence
from itertools import chain
from typing import Any

import apsw

TOGETHER = 32


class RowInsert:
    """Inserts rows of one shape."""

    def __init__(self, into: str, width: int) -> None:
        """`into` is a table with or without its columns, which are `width`."""
        row = f"({', '.join('?' * width)})"
        self._one = f"INSERT INTO {into} VALUES {row}"
        self._several = self._one + f", {row}" * (TOGETHER - 1)

    def run(self, connection: apsw.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Inserts them in their order."""
        whole = len(rows) - len(rows) % TOGETHER
        for at in range(0, whole, TOGETHER):
            connection.execute(self._several, tuple(chain.from_iterable(rows[at:at + TOGETHER])))
        connection.executemany(self._one, rows[whole:])

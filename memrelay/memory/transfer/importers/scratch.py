"""A temporary table on disk: a file to import may have millions of items."""

from types import TracebackType
from typing import ClassVar, Self

import apsw

CACHE_KIB = 4000


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

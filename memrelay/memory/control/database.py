"""The control plane's database: SQLite (system_file.py) or PostgreSQL (postgres.py).

Both run the same SQL. It uses only what both know, with `?` or `?1` for parameters.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, Self

# A row of a result, and the values of a statement.
Row = Sequence[Any]


class Sql(Protocol):
    """A connection for the statements of one `reading` or `changing`."""

    async def fetch(self, sql: str, values: Row = ()) -> list[Row]:
        """Run a statement and return its rows."""

    async def change(self, sql: str, values: Row = ()) -> int:
        """Run a statement and return the number of changed rows."""

    async def change_many(self, sql: str, rows: Iterable[Row]) -> None:
        """Run a statement for each row of values."""


class ControlDatabase(Protocol):
    """The database, as an async context manager.

    Opening it creates or migrates its tables. Opening it, and all methods, raise StoreBusy while it
    cannot be used, and StoreBroken if it is damaged or not ours.
    """

    async def __aenter__(self) -> Self:
        """Open it."""

    async def __aexit__(self, *_: object) -> None:
        """Close it."""

    def reading(self) -> AbstractAsyncContextManager[Sql]:
        """Return the context of one statement that reads."""

    def changing(self) -> AbstractAsyncContextManager[Sql]:
        """Return the context of a transaction.

        It is committed at the end, or rolled back on an error. One runs at a time.
        """

    async def identify(self) -> str:
        """Return a text that is the same in all programs with this database."""

    async def read_version(self) -> tuple[int, int]:
        """Return a value that changes with every change."""

    async def measure(self) -> int:
        """Return the bytes of the database on its server; 0 for a file."""

    async def rewrite(self) -> None:
        """Rewrite the files without deleted data."""

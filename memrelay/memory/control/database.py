"""The control plane's database: SQLite (system_file.py) or PostgreSQL (postgres.py).

Both run the same SQL. It uses only what both know, with `?` or `?1` for parameters.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, Self

from memrelay.memory.errors import NotReplaced

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


class ControlRows:
    """The rows of one subject in the control plane. `database` is open."""

    def __init__(self, database: ControlDatabase) -> None:
        self._database = database

    async def _fetch(self, sql: str, values: Row = ()) -> list[Row]:
        """Run one statement that reads, and return its rows."""
        async with self._database.reading() as database:
            return await database.fetch(sql, values)


# By table: the columns, and the order in which rows arrived. New rows get new positions.
TABLES = {
    "bundles": ("hash, source", "hash"),
    "versions": ("uid, version, name, hash, deployed_at", "uid, version"),
    "pipelines": ("uid, name, hash, version, deployed_at", "uid"),
    "dead_letters": (
        "pipeline, id, swarm, data, error, bundle, buried_at, agent, producer_id, hop, heard, "
        "attempts, entry",
        "n",
    ),
    "keys": (
        "id, name, digest, scopes, pipelines, created_at, expires_at, revoked_at, parent, client, "
        "resource",
        "created_at, rowid",
    ),
    "sessions": ("digest, key, expires_at", "rowid"),
    "oauth_clients": ("id, name, redirect_uris, created_at, used_at", "created_at, id"),
    "oauth_tokens": ("digest, key, kind, expires_at, used_at", "digest"),
}


async def copy_control_plane(
    source: ControlDatabase, target: ControlDatabase, *, replace: bool
) -> dict[str, int]:
    """Copy all rows of `source`, in one transaction of `target`. Return their numbers by table.

    Both are open. `replace` deletes the rows of `target` first. Without it, raises NotReplaced if
    there are any.
    """
    counts = {}
    async with target.changing() as into:
        for table, (columns, order) in TABLES.items():
            if replace:
                await into.change(f"DELETE FROM {table}")
            elif await into.fetch(f"SELECT 1 FROM {table} LIMIT 1"):
                raise NotReplaced(
                    f"the table {table} of the new control plane has rows already; use --force to "
                    "replace everything in it"
                )
            async with source.reading() as database:
                rows = await database.fetch(f"SELECT {columns} FROM {table} ORDER BY {order}")
            marks = ", ".join("?" * len(columns.split(", ")))
            await into.change_many(f"INSERT INTO {table}({columns}) VALUES ({marks})", rows)
            counts[table] = len(rows)
    return counts

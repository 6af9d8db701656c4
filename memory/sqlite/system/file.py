"""Makes and opens system.db, and its transactions. A rollback journal, since other processes of the
host open it too."""

import sqlite3
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import aiosqlite

from memory.errors import StoreBroken
from memory.on_disk import made_whole
from memory.sqlite.system.migrations import MIGRATIONS

Row = Iterable[Any]
EMPTY = (
    "it is empty, and what it had is gone: bundles, keys, dead letters. `memrelay restore` puts a backup in its place; "
    "once it is removed a new one is made, and HTTP asks for no key until one is made"
)


def make(path: Path) -> None:
    """An empty one of today's schema, whole as soon as it is at `path`: so one without a schema is
    one that lost what it had.

    Raises OSError and sqlite3.Error.
    """
    with made_whole(path) as draft, closing(sqlite3.connect(draft)) as database:
        database.executescript(
            ";".join(
                [
                    "BEGIN",
                    *(statement for migration in MIGRATIONS for statement in migration),
                    f"PRAGMA user_version = {len(MIGRATIONS)}",
                    "COMMIT",
                ]
            )
        )


async def prepare(database: aiosqlite.Connection) -> None:
    """The pragmas and the schema; raises DatabaseError or StoreBroken where the file is none of
    ours."""
    await database.execute("PRAGMA busy_timeout = 10000")
    await database.execute("PRAGMA synchronous = FULL")
    async with transaction(database):
        version = await _number(database, "PRAGMA user_version")
        if version > len(MIGRATIONS):
            raise StoreBroken(
                f"it was written by a newer Memrelay (schema {version}); run that one"
            )
        if version == 0 and await _number(database, "SELECT count(*) FROM sqlite_master"):
            raise StoreBroken("it is another program's; move it away, a new one is made")
        if version == 0:
            raise StoreBroken(EMPTY)
        if version < len(MIGRATIONS):
            for statement in [
                statement for migration in MIGRATIONS[version:] for statement in migration
            ]:
                await database.execute(statement)
            await database.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


async def _number(database: aiosqlite.Connection, query: str) -> int:
    ((number,),) = await database.execute_fetchall(query)
    return int(number)


@asynccontextmanager
async def transaction(database: aiosqlite.Connection) -> AsyncIterator[None]:
    """One at a time on a connection. All or nothing, even where the task is cancelled: the
    statement that is under way then
    still runs, BEGIN or COMMIT too, so the last word is ROLLBACK."""
    committed = False
    try:
        await database.execute("BEGIN IMMEDIATE")
        yield
        await database.execute("COMMIT")
        committed = True
    finally:
        if not committed:
            with suppress(
                aiosqlite.OperationalError
            ):  # there is nothing to undo: BEGIN failed, or COMMIT ran after all
                await database.execute("ROLLBACK")

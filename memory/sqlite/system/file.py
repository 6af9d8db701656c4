"""Opens system.db and its transactions. A rollback journal, since other processes of the host open it too."""
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiosqlite

from memory.errors import StoreBroken
from memory.sqlite.system.migrations import MIGRATIONS

Row = Iterable[Any]


async def prepare(database: aiosqlite.Connection) -> None:
    """The pragmas and the schema; raises DatabaseError or StoreBroken where the file is none of ours."""
    await database.execute("PRAGMA busy_timeout = 10000")
    await database.execute("PRAGMA synchronous = FULL")
    async with transaction(database):
        version = await _number(database, "PRAGMA user_version")
        if version > len(MIGRATIONS):
            raise StoreBroken(f"it was written by a newer Memrelay (schema {version}); run that one")
        if version == 0 and await _number(database, "SELECT count(*) FROM sqlite_master"):
            raise StoreBroken("it is another program's; move it away, a new one is made")
        if version < len(MIGRATIONS):
            for statement in [statement for migration in MIGRATIONS[version:] for statement in migration]:
                await database.execute(statement)
            await database.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


async def _number(database: aiosqlite.Connection, query: str) -> int:
    ((number,),) = await database.execute_fetchall(query)
    return int(number)


@asynccontextmanager
async def transaction(database: aiosqlite.Connection) -> AsyncIterator[None]:
    """One at a time on a connection. All or nothing, even where the task is cancelled: the statement that is under way then
    still runs, BEGIN or COMMIT too, so the last word is ROLLBACK."""
    committed = False
    try:
        await database.execute("BEGIN IMMEDIATE")
        yield
        await database.execute("COMMIT")
        committed = True
    finally:
        if not committed:
            with suppress(aiosqlite.OperationalError):  # there is nothing to undo: BEGIN failed, or COMMIT ran after all
                await database.execute("ROLLBACK")

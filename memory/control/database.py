"""Makes and opens system.db, and its transactions. A rollback journal, since other processes of the
host open it too."""

import sqlite3
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import aiosqlite

from memrelay.memory.disk import write_whole_file
from memrelay.memory.errors import StoreBroken

# Numbered changes of system.db's schema. Appended, never edited: files that exist have run the old
# ones.

BUNDLES_AND_DEAD_LETTERS = (
    "CREATE TABLE bundles(hash TEXT PRIMARY KEY, source BLOB NOT NULL)",
    "CREATE TABLE pipelines("
    "uid TEXT PRIMARY KEY, name TEXT NOT NULL, hash TEXT NOT NULL, version INTEGER NOT NULL, deployed_at INTEGER NOT NULL)",
    "CREATE TABLE dead_letters("
    "pipeline TEXT NOT NULL, id TEXT NOT NULL, swarm TEXT NOT NULL, data BLOB NOT NULL, error TEXT NOT NULL, "
    "bundle TEXT NOT NULL, buried_at INTEGER NOT NULL, PRIMARY KEY(pipeline, id))",
)
VERSIONS = (
    "CREATE TABLE versions("
    "uid TEXT NOT NULL, version INTEGER NOT NULL, name TEXT NOT NULL, hash TEXT NOT NULL, deployed_at INTEGER NOT NULL, "
    "PRIMARY KEY(uid, version)) WITHOUT ROWID",
    # the earlier ones were not kept
    "INSERT INTO versions SELECT uid, version, name, hash, deployed_at FROM pipelines",
)
# What it takes to replay a dead letter, and `n`, which never comes twice: the place of a letter in
# a list.
LETTERS_TO_REPLAY = (
    "CREATE TABLE letters("
    "n INTEGER PRIMARY KEY AUTOINCREMENT, pipeline TEXT NOT NULL, id TEXT NOT NULL, swarm TEXT NOT NULL, data BLOB NOT NULL, "
    "error TEXT NOT NULL, bundle TEXT NOT NULL, buried_at INTEGER NOT NULL, agent TEXT NOT NULL, producer_id TEXT NOT NULL, "
    "hop TEXT NOT NULL, heard INTEGER NOT NULL, attempts INTEGER NOT NULL, entry TEXT NOT NULL, UNIQUE(pipeline, id))",
    "INSERT INTO letters SELECT NULL, old.*, '', '', '', 0, 1, id FROM dead_letters AS old ORDER BY buried_at, rowid",
    "DROP TABLE dead_letters",
    "ALTER TABLE letters RENAME TO dead_letters",
)
KEYS_AND_SESSIONS = (
    "CREATE TABLE keys("
    "id TEXT PRIMARY KEY, name TEXT NOT NULL, digest BLOB NOT NULL, scopes TEXT NOT NULL, pipelines TEXT NOT NULL, "
    "created_at INTEGER NOT NULL, expires_at INTEGER, revoked_at INTEGER)",
    "CREATE TABLE sessions(digest BLOB PRIMARY KEY, key TEXT NOT NULL, expires_at INTEGER NOT NULL)",
)
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    BUNDLES_AND_DEAD_LETTERS,
    VERSIONS,
    LETTERS_TO_REPLAY,
    KEYS_AND_SESSIONS,
)


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
    with write_whole_file(path) as draft, closing(sqlite3.connect(draft)) as database:
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

"""The schema and the transactions of system.db.

It has a rollback journal, because several processes of a host open it.
"""

import sqlite3
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import aiosqlite

from memrelay.memory.disk import write_whole_file
from memrelay.memory.errors import StoreBroken

# Migrations of the schema, appended and never edited, because existing files ran the earlier ones.

BUNDLES_AND_DEAD_LETTERS = (
    "CREATE TABLE bundles(hash TEXT PRIMARY KEY, source BLOB NOT NULL)",
    "CREATE TABLE pipelines(uid TEXT PRIMARY KEY, name TEXT NOT NULL, hash TEXT NOT NULL, "
    "version INTEGER NOT NULL, deployed_at INTEGER NOT NULL)",
    "CREATE TABLE dead_letters(pipeline TEXT NOT NULL, id TEXT NOT NULL, swarm TEXT NOT NULL, "
    "data BLOB NOT NULL, error TEXT NOT NULL, bundle TEXT NOT NULL, buried_at INTEGER NOT NULL, "
    "PRIMARY KEY(pipeline, id))",
)
VERSIONS = (
    "CREATE TABLE versions(uid TEXT NOT NULL, version INTEGER NOT NULL, name TEXT NOT NULL, "
    "hash TEXT NOT NULL, deployed_at INTEGER NOT NULL, PRIMARY KEY(uid, version)) WITHOUT ROWID",
    # Only the active versions are known: earlier ones were not kept before this migration.
    "INSERT INTO versions SELECT uid, version, name, hash, deployed_at FROM pipelines",
)
# All fields that a replay needs, and `n`, an increasing number that is the position of a letter in
# lists.
LETTERS_TO_REPLAY = (
    "CREATE TABLE letters(n INTEGER PRIMARY KEY AUTOINCREMENT, pipeline TEXT NOT NULL, "
    "id TEXT NOT NULL, swarm TEXT NOT NULL, data BLOB NOT NULL, error TEXT NOT NULL, "
    "bundle TEXT NOT NULL, buried_at INTEGER NOT NULL, agent TEXT NOT NULL, "
    "producer_id TEXT NOT NULL, hop TEXT NOT NULL, heard INTEGER NOT NULL, "
    "attempts INTEGER NOT NULL, entry TEXT NOT NULL, UNIQUE(pipeline, id))",
    "INSERT INTO letters SELECT NULL, old.*, '', '', '', 0, 1, id FROM dead_letters AS old "
    "ORDER BY buried_at, rowid",
    "DROP TABLE dead_letters",
    "ALTER TABLE letters RENAME TO dead_letters",
)
KEYS_AND_SESSIONS = (
    "CREATE TABLE keys(id TEXT PRIMARY KEY, name TEXT NOT NULL, digest BLOB NOT NULL, "
    "scopes TEXT NOT NULL, pipelines TEXT NOT NULL, created_at INTEGER NOT NULL, "
    "expires_at INTEGER, revoked_at INTEGER)",
    "CREATE TABLE sessions(digest BLOB PRIMARY KEY, key TEXT NOT NULL, "
    "expires_at INTEGER NOT NULL)",
)
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    BUNDLES_AND_DEAD_LETTERS,
    VERSIONS,
    LETTERS_TO_REPLAY,
    KEYS_AND_SESSIONS,
)


Row = Iterable[Any]
EMPTY = (
    "it is empty: bundles, keys and dead letters are lost. Restore a backup with `memrelay "
    "restore`, or remove the file: Memrelay then creates a new one, and HTTP requires no key until "
    "you create one"
)


def create_system_file(path: Path) -> None:
    """Create an empty file with the current schema, complete as soon as it exists at `path`.

    So a file without a schema is one that lost its data. Raises OSError and sqlite3.Error.
    """
    with write_whole_file(path) as draft, closing(sqlite3.connect(draft)) as database:
        database.executescript(
            ";".join(
                [
                    "BEGIN",
                    *chain.from_iterable(MIGRATIONS),
                    f"PRAGMA user_version = {len(MIGRATIONS)}",
                    "COMMIT",
                ]
            )
        )


async def prepare_connection(database: aiosqlite.Connection) -> None:
    """Set the pragmas and migrate the schema.

    Raises DatabaseError or StoreBroken: the file is not a usable system.db.
    """
    await database.execute("PRAGMA busy_timeout = 10000")
    await database.execute("PRAGMA synchronous = FULL")
    async with transaction(database):
        version = await _query_number(database, "PRAGMA user_version")
        if version > len(MIGRATIONS):
            raise StoreBroken(
                f"it was written by a newer Memrelay (schema {version}); run that one"
            )
        if version == 0 and await _query_number(database, "SELECT count(*) FROM sqlite_master"):
            raise StoreBroken(
                "it belongs to another program; move it away, then Memrelay creates a new one"
            )
        if version == 0:
            raise StoreBroken(EMPTY)
        if version < len(MIGRATIONS):
            for statement in chain.from_iterable(MIGRATIONS[version:]):
                await database.execute(statement)
            await database.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


async def _query_number(database: aiosqlite.Connection, query: str) -> int:
    ((number,),) = await database.execute_fetchall(query)
    return int(number)


@asynccontextmanager
async def transaction(database: aiosqlite.Connection) -> AsyncIterator[None]:
    """Run the block in a transaction; a connection has one at a time.

    It is rolled back on every error, also if the task is cancelled. The statement in progress, even
    BEGIN or COMMIT, still runs then, so ROLLBACK comes last.
    """
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
                # There is nothing to roll back: BEGIN failed, or COMMIT succeeded after all.
            ):
                await database.execute("ROLLBACK")

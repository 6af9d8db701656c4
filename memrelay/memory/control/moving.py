"""Copies the control plane from one database to another."""

from memrelay.memory.control.database import ControlDatabase
from memrelay.memory.errors import NotReplaced

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
        "id, name, digest, scopes, pipelines, created_at, expires_at, revoked_at",
        "created_at, rowid",
    ),
    "sessions": ("digest, key, expires_at", "rowid"),
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

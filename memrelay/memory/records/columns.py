"""The columns of a record in SQL. Each list exists once, in the order of its tuple."""

from collections.abc import Iterable

from memrelay.memory.records.record import Further, Record

# Columns that every read returns, in the order of Record, which adds the score.
READ = Record._fields[:-1]
# Columns that every new record has, READ without `expires_at`.
NEW = READ[:-1]
# Columns that few records have.
FURTHER = Further._fields
# All columns that a version keeps, in the order of State, which adds the content.
STATE = (
    "guid",
    "number",
    "scope",
    "kind",
    "source",
    "tags",
    "created_at",
    "updated_at",
    "key",
    "owner",
    "data",
    "expires_at",
    "in_context",
    "encrypted",
    "thread",
    "seq",
    "crc",
)
# Columns of an exported record or version, in the order of Exported. The import computes `crc`.
EXPORTED = (*STATE[:-1], "content")


def column_list(names: Iterable[str], prefix: str = "") -> str:
    """Return the names as an SQL list, each with the prefix."""
    return ", ".join(f"{prefix}{name}" for name in names)

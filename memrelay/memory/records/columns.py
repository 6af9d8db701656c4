"""The columns of a record in SQL. Each list exists once, in the order of its tuple."""

from collections.abc import Iterable
from typing import Literal, get_args

from memrelay.memory.records.record import Record, RecordExtras

# Columns that every read returns, in the order of Record, which adds the score.
READ = Record._fields[:-1]
# Columns that every new record has, READ without `expires_at`.
NEW = READ[:-1]
# Columns that few records have.
EXTRAS = RecordExtras._fields
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
    "valid_from",
    "valid_to",
    "born",
    "origin",
    "crc",
)
# Columns of an exported record or version, in the order of Exported.
EXPORTED = (*STATE[:-3], "content")
OrderBy = Literal["created_at", "updated_at", "uses", "seen_at"]
Direction = Literal["asc", "desc"]
COLUMNS: dict[str, str] = {
    "created_at": "r.created_at",
    "updated_at": "r.updated_at",
    "uses": "coalesce((SELECT t.uses FROM tallies AS t WHERE t.guid = r.guid), 0)",
    "seen_at": "coalesce((SELECT t.seen_at FROM tallies AS t WHERE t.guid = r.guid), 0)",
}
# By direction for the order of arrival, else by column and direction.
ORDER = {"asc": " ORDER BY r.row", "desc": " ORDER BY r.row DESC"} | {
    f"{name} {direction}": f" ORDER BY {column} {direction}, r.row {direction}"
    for name, column in COLUMNS.items()
    for direction in get_args(Direction)
}


def column_list(names: Iterable[str], prefix: str = "") -> str:
    """Return the names as an SQL list, each with the prefix."""
    return ", ".join(f"{prefix}{name}" for name in names)

"""The orders of a page of records, as SQL. Equal values keep the order of arrival."""

from typing import Literal, get_args

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

"""The vocabulary of the filter language: fields, types, operators and limits."""

from typing import Literal

FieldType = Literal["text", "number", "time", "flag", "tags", "data"]

# By the name of the column.
FIELDS: dict[str, FieldType] = {
    "guid": "text",
    "scope": "text",
    "kind": "text",
    "content": "text",
    "source": "text",
    "tags": "tags",
    "created_at": "time",
    "updated_at": "time",
    "key": "text",
    "owner": "text",
    "data": "data",
    "expires_at": "time",
    "in_context": "flag",
    "thread": "text",
    "seq": "number",
}
GROUPS = ("and", "or", "not")
OPERATORS = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "contains", "exists")
ORDERED = ("gt", "gte", "lt", "lte")
LISTS = ("in", "nin")
NULLABLE = ("key", "owner", "expires_at", "thread", "seq", "data")

# A field, an operator, a group and each filter in a group counts as one piece. SQL has limits,
# and each piece costs time.
MOST_PIECES = 128
# Groups inside groups.
MOST_DEPTH = 8
# Values in all lists together.
MOST_LISTED = 1000
# Characters. Finding one text in another takes time proportional to the product of their lengths.
MAX_CONTAINED = 256

OPERATORS_BY_TYPE: dict[FieldType, tuple[str, ...]] = {
    "text": OPERATORS,
    "data": OPERATORS,
    "number": tuple(name for name in OPERATORS if name != "contains"),
    "time": tuple(name for name in OPERATORS if name != "contains"),
    "flag": tuple(name for name in OPERATORS if name not in (*ORDERED, "contains")),
    "tags": ("contains", "exists"),
}

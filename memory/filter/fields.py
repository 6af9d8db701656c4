"""What can be filtered by: the fields of a record with the sort of their values, and which
operators each sort takes."""

from typing import Literal

Sort = Literal["text", "number", "time", "flag", "tags", "data"]

FIELDS: dict[str, Sort] = {  # the columns of the same names
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
TAKES: dict[Sort, tuple[str, ...]] = {
    "text": OPERATORS,
    "data": OPERATORS,
    "number": tuple(name for name in OPERATORS if name != "contains"),
    "time": tuple(name for name in OPERATORS if name != "contains"),
    "flag": tuple(name for name in OPERATORS if name not in (*ORDERED, "contains")),
    "tags": ("contains", "exists"),
}

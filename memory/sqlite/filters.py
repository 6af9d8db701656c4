"""Which records may be found, as SQL: every condition holds before any limit counts."""

from typing import Any, NamedTuple

import orjson
from msgspec import Struct

HAS_TAG = "EXISTS (SELECT 1 FROM json_each(r.tags) WHERE value = ?)"
TAG_FITS = "tags_match(r.tags, ?)"  # memory/sqlite/memories.py has the function

Clause = tuple[str, tuple[Any, ...]]  # a condition on `records AS r`, and the values in it
Filters = dict[str, str]  # column (kind, scope, source, guid) -> the value it must have


class Given(NamedTuple):
    """A filter, compiled, and as it was given."""

    sql: str
    values: tuple[Any, ...]
    told: dict[str, Any]


class Conditions(Struct, frozen=True):
    """What a record must be; all of it. A struct, for the reason that Message is one."""

    equal: Filters = {}
    kinds: tuple[str, ...] = ()  # one of them, where there are any
    scopes: tuple[str, ...] = ()  # one of them, where there are any
    tags: tuple[str, ...] = ()  # all of them
    after_ms: int | None = None  # created at this moment or later, Unix ms
    before_ms: int | None = None  # created before this moment, Unix ms
    globs: tuple[str, ...] = ()  # one of them fits a tag, where there are any (memory/globs.py)
    given: Given | None = None  # a filter (docs/filters.md), compiled

    def clauses(self) -> tuple[list[str], list[Any]]:
        """SQL over the table of records as `r`, and the values in it. Names in it are our own,
        never a user's."""
        clauses = [f"r.{name} = ?" for name in self.equal]
        values: list[Any] = [*self.equal.values()]
        for name, wanted in (("kind", self.kinds), ("scope", self.scopes)):
            if wanted:
                clauses.append(f"r.{name} IN ({', '.join('?' * len(wanted))})")
                values += wanted
        clauses += [HAS_TAG] * len(self.tags)
        values += self.tags
        if self.globs:
            clauses.append(TAG_FITS)
            values.append(orjson.dumps(self.globs).decode())
        for clause, moment in (
            ("r.created_at >= ?", self.after_ms),
            ("r.created_at < ?", self.before_ms),
        ):
            if moment is not None:
                clauses.append(clause)
                values.append(moment)
        if self.given is not None:
            clauses.append(self.given.sql)
            values += self.given.values
        return clauses, values


def where(*clauses: str) -> str:
    """The WHERE clause, "" where there is nothing to hold."""
    return " WHERE " + " AND ".join(clauses) if clauses else ""

"""Finds the records of a subject by indexes, in order of arrival.

Records belong to a user by their owner or their scope, to a conversation by their thread or their
scope, and to an agent by their source or their scope. No index has the source, so the records of an
agent are looked for among NEWEST records at a time.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from memrelay.memory.engine.filter_sql import Conditions, Given, where
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.records.record import Record, RecordExtras

SubjectSort = Literal["user", "agent", "thread"]
SCOPES: dict[str, str] = {"user": "user:", "agent": "agent:", "thread": "session:"}
# Threads of the steps of an episode, which are no conversations.
STEPS, AFTER_STEPS = "episode:", "episode;"
# Records among which those of an agent are looked for at once. It takes about 20 ms.
NEWEST = 50_000
# Records of a subject that a list counts.
MOST_COUNTED = 10_000
# The columns that name subjects besides their scope. Each has the index `records_<column>`.
NAMES = {"user": "owner", "thread": "thread"}
TIME = "SELECT created_at FROM records WHERE row = ?"
Row = tuple[int, Record, RecordExtras]


class Arm(NamedTuple):
    """One way in which records belong to a subject: a column has a value."""

    column: str
    value: str
    by: str

    @property
    def has_kinds(self) -> bool:
        """Whether the index has the kinds of the records."""
        return self.column in ("owner", "scope")


def list_arms(sort: str, name: str) -> list[Arm]:
    """Return the ways in which records belong to a subject."""
    column, index = {
        "user": ("owner", "INDEXED BY records_owner"),
        "agent": ("source", "NOT INDEXED"),
        "thread": ("thread", "INDEXED BY records_thread"),
    }[sort]
    scope = Arm("scope", f"{SCOPES[sort]}{name}", "INDEXED BY records_scope_kind")
    return [Arm(column, name, index), scope]


class Summary(NamedTuple):
    """The records of a subject by kind, and the times of the first and the newest one, Unix ms."""

    counts: dict[str, int]
    first_ms: int | None = None
    last_ms: int | None = None


class Wanted(NamedTuple):
    """The kinds of records to read: one, or all of `kinds` if it is ""."""

    kind: str
    kinds: tuple[str, ...]


class Window(NamedTuple):
    """The rows to look at: those above `floor` and, unless it is None, below `beyond`."""

    floor: int
    beyond: int | None

    def clauses(self) -> tuple[list[str], list[Any]]:
        """Return (SQL conditions, their values)."""
        if self.beyond is None:
            return ["r.row > ?"], [self.floor]
        return ["r.row > ?", "r.row < ?"], [self.floor, self.beyond]


class SubjectTable(StoreTable):
    """Reads the records of subjects inside the store's open transaction."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)

    def window(self, sort: str, beyond: int | None) -> Window:
        """Return the rows that a page of a subject looks at."""
        if sort != "agent":
            return Window(0, beyond)
        self._records.flush()
        top = self._records.last_row + 1 if beyond is None else beyond
        return Window(max(0, top - 1 - NEWEST), beyond)

    def summarize(self, arms: list[Arm], window: Window) -> Summary:
        """Return the number of records by kind, and the first and last. A record counts once."""
        self._records.flush()
        counts: dict[str, int] = {}
        rows: list[int] = []
        clauses, values = window.clauses()
        for number, arm in enumerate(arms):
            others = [f"r.{one.column} IS NOT ?" for one in arms[:number]]
            which, bound = self._which(arm, "", [*clauses, *others])
            bound += [*values, *(one.value for one in arms[:number])]
            sql = f"SELECT r.kind, count(*), min(r.row), max(r.row) FROM {which} GROUP BY r.kind"
            for kind, count, first, last in self._connection.execute(sql, bound):
                counts[kind] = counts.get(kind, 0) + count
                rows += [first, last]
        ends = [self._connection.execute(TIME, (end(rows),)).get for end in (min, max) if rows]
        return Summary(counts, *ends)

    def page(
        self, arms: list[Arm], wanted: Wanted, window: Window, limit: int, order: str = "desc"
    ) -> Iterator[Row]:
        """Yield (row, record, extras) of the records of a subject, the newest first for "desc"."""
        self._records.flush()
        parts, values = [], list[Any]()
        last = f"ORDER BY r.row{' DESC' if order == 'desc' else ''} LIMIT ?"
        clauses, bound = window.clauses()
        for arm in arms:
            for kind in (wanted.kind,) if wanted.kind or not arm.has_kinds else wanted.kinds:
                which, given = self._which(arm, kind, clauses)
                parts.append(f"SELECT * FROM (SELECT r.row FROM {which} {last})")
                values += [*given, *bound, limit]
        if not parts:
            return iter(())
        rows = Given(f"r.row IN ({' UNION '.join(parts)})", tuple(values), {})
        return self._records.page(Conditions(given=rows), order, None, limit)

    def names(self, sort: str, beginning: str, after: str) -> Iterator[str]:
        """Yield the names of subjects that begin with a text and come after another, by name."""
        self._records.flush()
        name = max(beginning, after)
        is_next = name == after
        while (found := self._next_name(sort, name, is_next=is_next)) and (
            found.startswith(beginning)
        ):
            is_step = sort == "thread" and found.startswith(STEPS)
            if not is_step:
                yield found
            name, is_next = (AFTER_STEPS, False) if is_step else (found, True)

    def count(self, arms: list[Arm]) -> int:
        """Return the number of records of a subject, at most MOST_COUNTED and one more."""
        parts, values = [], list[Any]()
        for arm in arms:
            which, bound = self._which(arm, "", [])
            parts.append(f"SELECT * FROM (SELECT r.row FROM {which} LIMIT ?)")
            values += [*bound, MOST_COUNTED + 1]
        sql = f"SELECT count(*) FROM ({' UNION '.join(parts)})"
        return min(int(self._connection.execute(sql, values).get), MOST_COUNTED + 1)

    def _which(self, arm: Arm, kind: str, clauses: list[str]) -> tuple[str, list[Any]]:
        """Return (what follows FROM, its values without those of `clauses`)."""
        equal = {arm.column: arm.value} | ({"kind": kind} if kind else {})
        present, values = self._records.expiry.clauses(
            Conditions(equal=equal), self._records.versions.now_ms
        )
        return f"records AS r {arm.by}{where(*present, *clauses)}", values

    def _next_name(self, sort: str, name: str, *, is_next: bool) -> str:
        """Return the first name from a name on, or after it with `is_next`; "" if none follows."""
        sign, prefix = ">" if is_next else ">=", SCOPES[sort]
        parts = [
            f"SELECT substr(min(scope), {len(prefix) + 1}) AS name FROM records "
            f"INDEXED BY records_scope WHERE scope {sign} ?2 AND scope < ?3"
        ]
        if (column := NAMES.get(sort)) is not None:
            parts.append(
                f"SELECT min({column}) AS name FROM records INDEXED BY records_{column} "
                f"WHERE {column} {sign} ?1 AND {column} IS NOT NULL"
            )
        sql = f"SELECT min(name) FROM ({' UNION ALL '.join(parts)})"
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        return str(self._connection.execute(sql, (name, prefix + name, end)).get or "")

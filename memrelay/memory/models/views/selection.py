"""The SQL that selects the members of a view: a row for each record and part."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import re2

from memrelay.memory.engine.filter_sql import NO_AGENT_MEMORY, Clause, compiled, json_path
from memrelay.memory.records.filters import parse_path
from memrelay.memory.records.kinds import is_agent_memory

Json = Mapping[str, Any]
MAX_PATTERN, MAX_MEMORY = 4096, 8 << 20
# Characters of a part, an item or a place; records with longer ones are left out.
LONGEST = 512
# Values of a list in `data` that are parts.
MOST_PARTS = 100
# The SQL function that applies the pattern of a view to a text.
MATCHES = "view_matches"
AMONG = "r.guid IN (SELECT value FROM json_each(?))"
IS_SCALAR = "IN ('text', 'integer', 'real')"


class Selection(NamedTuple):
    """The compiled selection of a view."""

    # Inserts the members, from all records. `among` continues it with the guids as JSON.
    sql: str
    values: tuple[Any, ...]
    has_pattern: bool

    @property
    def among(self) -> str:
        """Return the SQL for the records with these guids: one more value, a JSON list."""
        return f"{self.sql} AND {AMONG}"


def compile_pattern(source: Any) -> Callable[[str], bool]:
    """Return whether a text has a match of an RE2 pattern, as a function. Raises ValueError."""
    if not isinstance(source, str) or not 1 <= len(source) <= MAX_PATTERN:
        raise ValueError(f"a pattern is a text of 1 to {MAX_PATTERN} characters in RE2 syntax")
    options = re2.Options()
    options.log_errors, options.max_mem = False, MAX_MEMORY
    try:
        compiled_pattern = re2.compile(source, options)
    except re2.error as error:
        raise ValueError(f"RE2 refuses the pattern: {_reason(error)}") from error
    return lambda text: compiled_pattern.search(text) is not None


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def select_members(number: int, view: Json) -> Selection:
    """Return the selection of a valid view, whose members get the number of the view."""
    match = view.get("match", {})
    table, part, conditions = _find_part(view.get("per"))
    item, place = _find_item(view["show"])
    clauses: list[Clause] = [conditions, ("r.encrypted = 0", ())]
    if is_agent_memory(kind := match.get("kind", "")):
        clauses.append(("r.kind = ?", (kind,)))
    else:
        clauses.append((NO_AGENT_MEMORY, ()))
        clauses += [("r.kind = ?", (kind,))] if kind else []
    if (given := compiled(match.get("filter"))) is not None:
        clauses.append((given.sql, given.values))
    if pattern := match.get("pattern"):
        clauses.append((f"{MATCHES}(?, r.content)", (pattern,)))
    for column in (item, place):
        clauses.append((f"{column[0]} IS NOT NULL", column[1]))
    for column in (part, item, place):
        clauses.append((f"length({column[0]}) <= {LONGEST}", column[1]))
        # SQLite counts characters only up to a NUL.
        clauses.append((f"instr({column[0]}, char(0)) = 0", column[1]))
    sql = (
        "INSERT OR IGNORE INTO view_members(view, part, item, place, guid) "
        f"SELECT ?, {part[0]}, {item[0]}, {place[0]}, r.guid FROM records AS r{table[0]} "
        f"WHERE {' AND '.join(clause for clause, _ in clauses)}"
    )
    values = (number, *part[1], *item[1], *place[1], *table[1])
    values += tuple(value for _, bound in clauses for value in bound)
    return Selection(sql, values, bool(pattern))


def _find_part(per: str | None) -> tuple[Clause, Clause, Clause]:
    """Return (a further table, the part of a record, the condition that it has one)."""
    if per is None:
        return ("", ()), ("''", ()), ("1", ())
    if per == "tags":
        return (", json_each(r.tags) AS p", ()), ("p.value", ()), ("1", ())
    if not per.startswith("data."):
        return ("", ()), (f"r.{per}", ()), (f"r.{per} IS NOT NULL AND r.{per} <> ''", ())
    path = json_path(parse_path(per) or ())
    has_parts = (
        f"json_type(r.data, ?) {IS_SCALAR[:-1]}, 'array') AND p.type {IS_SCALAR} "
        f"AND p.value <> '' AND coalesce(p.key, 0) < {MOST_PARTS}"
    )
    return (
        (", json_each(r.data, ?) AS p", (path,)),
        ("CAST(p.value AS TEXT)", ()),
        (has_parts, (path,)),
    )


def _find_item(show: Any) -> tuple[Clause, Clause]:
    """Return the item of a record within its part, and its place within the item."""
    if show == "count":
        return ("''", ()), ("0", ())
    if "latest" in show:
        value, bound = _find_value(show["latest"])
        return (f"CAST({value} AS TEXT)", bound), ("r.born", ())
    return ("''", ()), _find_value(show["top"].get("by", "created_at"))


def _find_value(field: str) -> Clause:
    """Return a text or number of a record, NULL if it has none."""
    if not field.startswith("data."):
        return f"r.{field}", ()
    path = json_path(parse_path(field) or ())
    value = f"CASE WHEN json_type(r.data, ?) {IS_SCALAR} THEN json_extract(r.data, ?) END"
    return f"({value})", (path, path)

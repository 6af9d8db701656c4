"""The captured turns of a store, as the operations read them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from memrelay.memory.engine.filter_sql import Conditions, Given
from memrelay.memory.engine.store import Transaction
from memrelay.memory.records.data import parse_data

KIND, THREAD = "turn", "capture/"
# Newer records of the store among which turns are looked for. Reading so many takes about 0.1 s.
NEWEST = 100_000


class CapturedTurn(NamedTuple):
    """A turn that a coding tool's hook has captured. `at_ms` is Unix ms."""

    thread: str
    role: str
    content: str
    tool: str
    project: str
    branch: str
    at_ms: int


def read_newest(
    tx: Transaction, user: str, span_ms: tuple[int, int], given: Given | None = None
) -> Iterator[CapturedTurn]:
    """Yield captured turns of a user (all if ""), the newest first. `span_ms` is [first, end)."""
    filters = {"kind": KIND, "owner": user} if user else {"kind": KIND}
    first_row = tx.records.last_row - NEWEST
    sql = "r.row > ?" if given is None else f"(r.row > ? AND {given.sql})"
    values = () if given is None else given.values
    conditions = Conditions(
        filters,
        after_ms=span_ms[0],
        before_ms=span_ms[1],
        given=Given(sql, (first_row, *values), {}),
    )
    for _, record, extras in tx.records.page(conditions, "desc", None, NEWEST):
        thread = extras.thread or ""
        if thread.startswith(THREAD):
            data = parse_data(extras.data, record.guid)
            yield _view(thread, record.content, data, record.created_at)


def _view(thread: str, content: str, data: dict[str, Any], at_ms: int) -> CapturedTurn:
    item = data.get("item")
    item = item if isinstance(item, dict) else {}
    tool, project, branch = (str(item.get(name) or "") for name in ("tool", "project", "branch"))
    role = str(data.get("role") or "")
    return CapturedTurn(thread, role, content, tool, project, branch, at_ms)

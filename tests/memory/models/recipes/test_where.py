"""Conditions of queries: every operator on every type of value, and every kind of error."""

from typing import Any

import apsw
import orjson
import pytest

from memrelay.memory.errors import InvalidInput
from memrelay.memory.models.recipes.events import KNOWN, find_field
from memrelay.memory.models.recipes.queries import Where, compile_where

# By id: the payload of an event.
PAYLOADS: dict[str, Any] = {
    "number": {"v": 5},
    "real": {"v": 5.0},
    "text": {"v": "5"},
    "word": {"v": "Deploy [a]*_%"},
    "yes": {"v": True},
    "null": {"v": None},
    "list": {"v": [1, "a", None]},
    "object": {"v": {"b": 1}},
    "missing": {},
}
EVERY = set(PAYLOADS)


def matching(field: str, operator: str, value: Any = None) -> set[str]:
    sql, values = compile_where([Where(field, operator, value)], find_field, KNOWN)
    connection = apsw.Connection("")
    connection.execute("CREATE TABLE events(id TEXT, type TEXT, payload TEXT, at INTEGER)")
    rows = [
        (id_, "t.one", orjson.dumps(payload).decode(), 1000) for id_, payload in PAYLOADS.items()
    ]
    connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
    return {id_ for (id_,) in connection.execute(f"SELECT id FROM events WHERE {sql}", values)}


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [
        ("eq", 5, {"number", "real"}),
        ("=", "5", {"text"}),
        ("eq", True, {"yes"}),
        ("eq", None, {"null", "missing"}),
        ("neq", 5, EVERY - {"number", "real"}),
        ("!=", None, EVERY - {"null", "missing"}),
        ("gt", 4, {"number", "real"}),
        (">=", "5", {"text", "word"}),
        ("lt", 5, set()),
        ("<=", 5.0, {"number", "real"}),
        ("in", [5, "5", None], {"number", "real", "text", "null", "missing"}),
        ("in", [], set()),
        ("NOT IN", [5, True], EVERY - {"number", "real", "yes"}),
        ("between", [5, 6], {"number", "real"}),
        ("between", ["4", "6"], {"text"}),
        ("contains", "ploy", {"word"}),
        ("contains", "a", {"list", "word"}),
        ("contains", 1, {"list"}),
        ("contains", None, {"list"}),
        ("startsWith", "Deploy [a]*", {"word"}),
        ("starts_with", "deploy", set()),
        ("ends with", "_%", {"word"}),
        ("endsWith", "x%", set()),
        ("LIKE", "Dep%[a]*__", {"word"}),
        ("like", "dep%", set()),
        ("exists", None, EVERY - {"missing"}),
        ("exists", False, {"missing"}),
        ("is null", None, {"null", "missing"}),
        ("IS NOT NULL", None, EVERY - {"null", "missing"}),
    ],
)
def test_an_operator_compares_without_conversion(
    operator: str, value: Any, expected: set[str]
) -> None:
    assert matching("payload.v", operator, value) == expected


def test_columns_compare_texts_and_times() -> None:
    assert matching("eventType", "startsWith", "t.") == EVERY
    assert matching("event_type", "contains", "T") == set()
    assert matching("timestamp", "gte", "1970-01-01T00:00:01Z") == EVERY
    assert matching("timestamp", "between", [0, 999]) == set()
    assert matching("payload.v.b", "eq", 1) == {"object"}


def test_every_error_is_reported_with_its_place() -> None:
    wheres = [
        Where("payloat.x", "eq", 1),
        Where("payload.x", "equals", 1),
        Where("payload.x", "between", [1]),
        Where("timestamp", "gt", "yesterday"),
        Where("payload.x", "startsWith", 5),
        Where("payload.x", "gt", None),
        Where("payload.x", "in", 5),
        Where("timestamp", "contains", "1"),
    ]
    with pytest.raises(InvalidInput, match="8 errors") as caught:
        compile_where(wheres, find_field, KNOWN)

    assert [(fault.path, fault.code) for fault in caught.value.faults] == [
        ("/where/0/field", "bad_enum"),
        ("/where/1/operator", "bad_enum"),
        *((f"/where/{at}/value", "bad_type") for at in range(2, 8)),
    ]

"""Filters: their errors, their limits, resistance to injection, and the indexes that they use."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from memrelay.memory.engine.filter_sql import Conditions, compiled
from memrelay.memory.engine.store import Store
from memrelay.memory.records.filters import MOST_DEPTH, MOST_LISTED, MOST_PIECES, parse_filter
from tests.memory.builders import NOW, assert_sound, fresh_store, make_store, perform, write_all
from tests.memory.records.filtering import KEYS, TEXTS


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_store(tmp_path)


def create(store: Store, **given_fields: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, "records.create", **{"content": "tea"} | given_fields)


def total(store: Store, given_filter: dict[str, Any]) -> int:
    return int(perform(store, "records.list", filter=given_filter).total)


def refusal(given_filter: Any) -> tuple[tuple[Any, ...], str]:
    with pytest.raises(ValidationError) as raised:
        parse_filter(given_filter)
    (fault,) = raised.value.errors()
    return fault["loc"], fault["msg"]


@pytest.mark.parametrize(
    ("given_filter", "place", "message"),
    [
        ({"kynd": {"eq": "x"}}, ("kynd",), "unknown field 'kynd' (did you mean 'kind'?)"),
        ({"zzz": {"eq": "x"}}, ("zzz",), "known: guid, scope"),
        ({"row": {"eq": 1}}, ("row",), "unknown field 'row'"),
        ({"r.kind": {"eq": "x"}}, ("r.kind",), "unknown field 'r.kind'"),
        ({"dta.x": {"eq": 1}}, ("dta.x",), "did you mean 'data'"),
        (
            {"and": [{}, {"or": [{"not": {"tag": {"eq": "x"}}}]}]},
            ("and", 1, "or", 0, "not", "tag"),
            "did you mean 'tags'",
        ),
        ({"kind": {"$eq": "x"}}, ("kind", "$eq"), "unknown operator '$eq' (did you mean 'eq'?)"),
        ({"kind": {"like": "x"}}, ("kind", "like"), "known: eq, ne"),
        ({"kind": "x"}, ("kind",), 'an object of operators, like {"eq"'),
        ({"kind": {}}, ("kind",), "an object of operators"),
        ({"kind": {"eq": 1}}, ("kind", "eq"), "must be a text"),
        ({"kind": {"eq": None}}, ("kind", "eq"), "must be a text"),
        ({"kind": {"in": "x"}}, ("kind", "in"), "takes a list"),
        ({"kind": {"in": ["a", 1]}}, ("kind", "in", 1), "must be a text"),
        ({"tags": {"eq": "x"}}, ("tags", "eq"), "it takes contains, exists"),
        ({"in_context": {"eq": 1}}, ("in_context", "eq"), "true or false"),
        ({"in_context": {"gt": True}}, ("in_context", "gt"), "does not take gt"),
        ({"seq": {"eq": "1"}}, ("seq", "eq"), "a number"),
        ({"seq": {"eq": True}}, ("seq", "eq"), "a number"),
        ({"seq": {"gt": None}}, ("seq", "gt"), "a number"),
        ({"data.x": {"gt": True}}, ("data.x", "gt"), "a text or a number"),
        ({"created_at": {"gt": "yesterday"}}, ("created_at", "gt"), "RFC 3339"),
        ({"created_at": {"gt": "2026-02-30"}}, ("created_at", "gt"), "RFC 3339"),
        ({"data.x": {"eq": [1]}}, ("data.x", "eq"), "a text, a number"),
        ({"data.x": {"eq": {}}}, ("data.x", "eq"), "a text, a number"),
        ({"data.x": {"eq": 2**63}}, ("data.x", "eq"), "64 bits"),
        ({"data.x": {"eq": float("nan")}}, ("data.x", "eq"), "must be finite"),
        ({"data.x": {"eq": "\ud800"}}, ("data.x", "eq"), "surrogate"),
        ({"data.x": {"exists": 1}}, ("data.x", "exists"), "true or false"),
        ({"content": {"contains": "x" * 257}}, ("content", "contains"), "256 characters"),
        ({"data.": {"eq": 1}}, ("data.",), "data.key.key"),
        ({"data..x": {"eq": 1}}, ("data..x",), "data.key.key"),
        ({'data."x': {"eq": 1}}, ('data."x',), "data.key.key"),
        ({'data."\\q"': {"eq": 1}}, ('data."\\q"',), "data.key.key"),
        ({"data" + ".a" * 17: {"eq": 1}}, ("data" + ".a" * 17,), "data.key.key"),
        ({"data." + "a" * 1024: {"eq": 1}}, ("data." + "a" * 1024,), "data.key.key"),
        ([], (), "a filter is an object"),
        ({"and": {}}, ("and",), "a list of filters"),
        ({"not": [{}]}, ("not",), "is an object"),
        ({"or": ["x"]}, ("or", 0), "is an object"),
    ],
)
def test_an_invalid_filter_is_rejected_with_its_location(
    given_filter: Any, place: tuple[Any, ...], message: str
) -> None:
    found_place, found_message = refusal(given_filter)

    assert found_place == place and message in found_message


def test_all_errors_are_reported_at_once_up_to_a_limit() -> None:
    with pytest.raises(ValidationError) as raised:
        parse_filter({"kynd": {}, "seq": {"eq": "1", "gt": "2"}, "or": [{"and": 1}]})
    assert [one["loc"] for one in raised.value.errors()] == [
        ("kynd",),
        ("seq", "eq"),
        ("seq", "gt"),
        ("or", 0, "and"),
    ]

    with pytest.raises(ValidationError) as many:
        parse_filter({f"x{number}": 1 for number in range(100_000)})
    assert len(many.value.errors()) == 20


def test_filter_limits_are_enforced() -> None:
    nested: dict[str, Any] = {}
    for _ in range(MOST_DEPTH):
        nested = {"not": nested}
    parse_filter(nested)
    parse_filter({"or": [{} for _ in range(MOST_PIECES - 1)]})
    parse_filter({"kind": {"in": ["x"] * MOST_LISTED}})

    assert "nest at most" in refusal({"not": nested})[1]
    assert f"at most {MOST_PIECES} pieces" in refusal({"or": [{} for _ in range(MOST_PIECES)]})[1]
    assert refusal({"kind": {"in": ["x"] * MOST_LISTED}, "key": {"nin": ["x"]}})[0] == (
        "key",
        "nin",
    )


def test_sqlite_accepts_a_filter_at_its_limits(store: Store) -> None:
    made = create(store, data={"x": "5"})
    wide = {
        "or": [
            {"data.x": {"in": [str(number) for number in range(990)]}},
            *[{"data.y": {"ne": None}}] * 36,
        ]
    }
    deep: dict[str, Any] = wide
    for _ in range(MOST_DEPTH - 1):
        deep = {"not": deep}

    assert (total(store, wide), total(store, deep)) == (1, 0)
    found = perform(store, "records.search", query="tea", mode="hybrid", filter=wide)
    assert [hit.record.guid for hit in found.items] == [made.guid]


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(TEXTS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "and",
                    "or",
                    "not",
                    "kind",
                    "tags",
                    "seq",
                    "data",
                    "data.x",
                    'data."',
                    "eq",
                    "in",
                    "contains",
                    "exists",
                    "created_at",
                    "gt",
                ]
            )
            | st.text(max_size=4),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def empty_store() -> Iterator[Store]:
    with fresh_store() as store:
        yield store


@given(given_filter=anything)
def test_any_json_is_compiled_or_rejected(empty_store: Store, given_filter: Any) -> None:
    with suppress(ValidationError):
        parse_filter(given_filter)
        assert empty_store.records.count(Conditions(given=compiled(given_filter))) == 0


INJECTIONS = [
    "' OR 1=1 --",
    "'; DROP TABLE records; --",
    '") OR 1=1 --',
    "x') UNION SELECT 1 --",
    "?",
    "?1",
    ":a",
    "$.x",
    "\x00",
    "%",
    "*",
    "r.kind",
    "NULL",
    '$."x"',
    "kind) OR (1=1",
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_a_value_cannot_inject_sql(store: Store, text: str) -> None:
    others = write_all(store, "tea", "tea")
    step = text.replace("\0", "NUL")  # a key cannot contain NUL
    mine = create(
        store,
        kind=text,
        data={step: {"x": text}, "list": [text]},
        key=text,
        tags=[text],
        thread=text,
    )

    filters = [
        {"kind": {"eq": text}},
        {"kind": {"in": [text]}},
        {"key": {"contains": text}},
        {"tags": {"contains": text}},
        {"thread": {"eq": text}},
        *_paths(step, text),
        {"data.list": {"contains": text}},
    ]
    for one in filters:
        page = perform(store, "records.list", filter=one)
        assert [item.guid for item in page.items] == [mine.guid], one
        assert total(store, {"not": one}) == len(others)
    assert_sound(store.path)


def _paths(step: str, text: str) -> list[dict[str, Any]]:
    quoted = json.dumps(step)
    return [{f"data.{quoted}.x": {"eq": text}}, {f"data.{quoted}": {"exists": True}}]


@pytest.mark.parametrize("name", INJECTIONS)
def test_a_name_cannot_inject_sql(name: str) -> None:
    for wrong in (
        {name: {"eq": "x"}},
        {"kind": {name: "x"}},
        {f"data{name}": {"eq": 1}},
        {f"data.{name}\0": {"eq": 1}},
    ):
        with pytest.raises(ValidationError):
            parse_filter(wrong)


@pytest.mark.parametrize("key", KEYS)
def test_any_data_key_can_be_filtered(store: Store, key: str) -> None:
    create(store, data={key: {key: "x"}})
    create(store, data={"other": {"other": "x"}})

    quoted = json.dumps(key)
    assert total(store, {f"data.{quoted}.{quoted}": {"eq": "x"}}) == 1


@pytest.mark.parametrize(
    ("operator", "wanted"), [("gt", 0), ("gte", 0), ("lt", 1), ("lte", 1), ("eq", 0), ("ne", 1)]
)
def test_a_time_between_two_milliseconds_compares_exactly(
    store: Store, operator: str, wanted: int
) -> None:
    create(store)

    between = "2023-11-14T22:13:20.0005Z"  # half a millisecond after NOW
    assert NOW == 1_700_000_000_000
    assert total(store, {"created_at": {operator: between}}) == wanted


def test_exact_conditions_use_the_indexes(store: Store) -> None:
    def plan(**given_filter: Any) -> str:
        sql, values = (compiled(given_filter) or ("", ()))[:2]
        return str(
            store._connection.execute(
                f"EXPLAIN QUERY PLAN SELECT * FROM records AS r WHERE {sql}", values
            ).fetchall()
        )

    assert "USING INDEX records_kind " in plan(kind={"eq": "x"})
    assert "USING INDEX records_kind " in plan(kind={"in": ["x", "y"]})
    assert "records_scope_kind (scope=? AND kind=?)" in plan(scope={"eq": "s"}, kind={"in": ["x"]})
    assert "records_thread" in plan(thread={"eq": "t"}) and "autoindex" in plan(guid={"in": ["x"]})
    assert "records_owner" in plan(owner={"eq": "x"})
    assert "SCAN r" in plan(source={"eq": "x"})

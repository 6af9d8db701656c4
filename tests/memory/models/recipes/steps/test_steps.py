"""The steps that read no source: each of their rules on a few items."""

import time
from typing import Any

import orjson
import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.models.recipes.execution.items import MAX_ITEMS, format_items, item_text
from memrelay.memory.models.recipes.handlers import all_handlers
from memrelay.memory.models.recipes.step import Item, Result, StepCall, StepFailed, all_step_types
from memrelay.memory.operations import Context
from tests.memory.builders import NOW, PLENTY, make_guid

ITEMS: list[Item] = [
    {"id": "1", "text": "one", "n": 1, "payload": {"kind": "a", "ms": 5}},
    {"id": "2", "text": "two", "n": 2.0, "payload": {"kind": "b", "ms": "5"}},
    {"id": "1", "text": "three", "n": "1", "tags": ["x", 1]},
    {"id": "4", "text": "four", "n": None, "payload": {"kind": "a"}},
]


def run(tx: Store, name: str, items: Any = ITEMS, **params: Any) -> Any:
    type_ = all_step_types()[name]
    results: dict[str, Result] = {"a": items, "b": [{"id": "5", "text": "five"}], "t": "Some TEXT"}
    intent = {"action": "", "context": {"c": "red", "deep": {}, "n": 3}, "query": "q"}
    run = {"memoryId": "m", "memory": {"label": "M"}, "intent": intent, "variables": {}}
    context = Context(NOW, "tester", PLENTY, make_guid)
    call = StepCall(tx, context, name, items, " The  Query ", results, run, "a", "log_search")
    return type_.run(type_.adapter.validate_json(orjson.dumps(params), strict=True), call)


def ids(items: list[Item]) -> list[str]:
    return [item["text"] for item in items]


@pytest.mark.parametrize(
    ("field", "operator", "value", "expected"),
    [
        ("n", "eq", 1, ["one"]),
        ("n", "neq", 1, ["two", "three", "four"]),
        ("n", "eq", None, ["four"]),
        ("payload.kind", "eq", "a", ["one", "four"]),
        ("payload.ms", "gte", 5, ["one"]),
        ("payload.ms", "lt", "6", ["two"]),
        ("n", "gt", 1, ["two"]),
        ("n", "lte", 1, ["one"]),
        ("text", "contains", "o", ["one", "two", "four"]),
        ("tags", "contains", 1, ["three"]),
        ("text", "startsWith", "t", ["two", "three"]),
        ("text", "endsWith", "e", ["one", "three"]),
        ("n", "in", ["1", 2], ["two", "three"]),
        ("payload", "exists", True, ["one", "two", "four"]),
        ("n", "exists", False, []),
        ("payload.ms", "exists", False, ["three", "four"]),
    ],
)
def test_filter_compares_without_conversion(
    tx: Store, field: str, operator: str, value: Any, expected: list[str]
) -> None:
    assert ids(run(tx, "filter", field=field, operator=operator, value=value)) == expected


@pytest.mark.parametrize(
    "params",
    [{"operator": "eq"}, {"operator": "in", "value": 1}, {"operator": "exists", "value": 1}],
)
def test_filter_refuses_an_unfit_value(tx: Store, params: dict[str, Any]) -> None:
    with pytest.raises(StepFailed, match="value") as found:
        run(tx, "filter", field="n", **params)

    assert found.value.code == "bad_param"


def test_deduplicate_keeps_the_first_and_items_without_the_field(tx: Store) -> None:
    assert ids(run(tx, "deduplicate")) == ["one", "two", "four"]
    assert ids(run(tx, "deduplicate", field="payload.kind")) == ["one", "two", "three"]


def test_group_by_keeps_the_order_of_first_items(tx: Store) -> None:
    groups = run(tx, "group_by", field="payload.kind")

    assert [(key, ids(items)) for key, items in groups.items()] == [
        ("a", ["one", "four"]),
        ("b", ["two"]),
        ("", ["three"]),
    ]


def test_reduce_latest_keeps_one_item_per_entity_newest_first(tx: Store) -> None:
    times = [{"id": "a", "text": str(hour), "timestamp": f"{hour:02}"} for hour in (9, 11, 10)]
    items = [*times, {"id": "b", "text": "b", "timestamp": "12"}, {"text": "no entity"}]

    assert ids(run(tx, "reduce_latest", items)) == ["b", "11"]


def test_merge_combines_results_in_three_ways(tx: Store) -> None:
    sources = ["a", "b", "absent"]

    assert ids(run(tx, "merge", sources=sources)) == ["one", "two", "three", "four", "five"]
    assert ids(run(tx, "merge", sources=sources, strategy="interleave"))[:3] == [
        "one",
        "five",
        "two",
    ]
    assert ids(run(tx, "merge", sources=sources, strategy="unique")) == [
        "one",
        "two",
        "four",
        "five",
    ]


@pytest.mark.parametrize("strategy", ["concat", "interleave", "unique"])
def test_merge_stops_at_the_first_item_too_many(tx: Store, strategy: str) -> None:
    items = [{"id": f"a{at}", "text": "tea"} for at in range(MAX_ITEMS)]
    started_s = time.thread_time()

    merged = run(tx, "merge", items, sources=["a", "b"] * 32, strategy=strategy)

    assert len(merged) == MAX_ITEMS + 1
    assert time.thread_time() - started_s < 0.25


def test_rank_and_score_sort_in_descending_order(tx: Store) -> None:
    items = [{"id": str(n), "text": str(n), "relevance": n} for n in (1, 3, 2)]

    assert ids(run(tx, "rank", [*items, {"text": "none"}], strategy="relevance", topK=2)) == [
        "3",
        "2",
    ]
    assert ids(run(tx, "rank", [{"text": "none"}, *items], strategy="relevance"))[-1] == "none"
    scored = run(tx, "score", weights={"n": 2, "payload.ms": 1})
    assert [(one["text"], one["score"]) for one in scored] == [
        ("one", 7.0),
        ("two", 4.0),
        ("three", 0.0),
        ("four", 0.0),
    ]
    assert "score" not in ITEMS[0]


def test_input_steps_derive_and_rewrite_the_query(tx: Store) -> None:
    assert run(tx, "derive_query") == "red 3"
    assert run(tx, "derive_query", source="query") == "q"
    assert run(tx, "derive_query", source="b") == "five"
    assert run(tx, "rewrite_query") == "the query"
    assert run(tx, "rewrite_query", source="t") == "some text"


def test_annotate_adds_the_source_step(tx: Store) -> None:
    annotated = run(tx, "annotate", ITEMS[:1], label="log")

    assert annotated == [
        ITEMS[0]
        | {
            "provenance": {
                "memory": "m",
                "memoryLabel": "M",
                "step": "log_search",
                "alias": "a",
                "retrievedAt": annotated[0]["provenance"]["retrievedAt"],
                "label": "log",
            }
        }
    ]


def test_custom_calls_a_handler_and_reports_its_errors(tx: Store) -> None:
    assert "pick" in all_handlers()
    picked = run(tx, "custom", handler="pick", args={"fields": ["text", "payload.ms"]})
    assert picked[:3:2] == [{"text": "one", "payload.ms": 5}, {"text": "three"}]
    for handler, args in (("pick", None), ("absent", {})):
        with pytest.raises(StepFailed) as found:
            run(tx, "custom", handler=handler, args=args)
        assert found.value.code == "handler_failed"


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"name": "n", "message": "m"}, "m"),
        ({"value": {"a": 1}, "title": "t"}, '{"a":1}'),
        ({"x": None}, '{"x":null}'),
    ],
)
def test_the_text_of_an_item_is_its_first_text_field(item: Item, expected: str) -> None:
    assert item_text(item) == expected


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("bullet_list", "- a\n- b\n  c"),
        ("numbered", "1. a\n2. b\n   c"),
        ("prose", "a. b\nc."),
        ("json", '[{"text":"a"},{"text":"b\\nc"}]'),
        ("markdown", "- a\n- b\n  c"),
    ],
)
def test_each_format_of_two_texts(style: str, expected: str) -> None:
    assert format_items([{"text": "a"}, {"text": "b\nc"}], style) == expected


def test_markdown_shows_a_name_and_prose_keeps_ends() -> None:
    items = [{"key": "theme", "text": "dark"}, {"key": "dark", "text": "dark"}]

    assert format_items(items, "markdown") == "- **theme**: dark\n- dark"
    assert format_items([{"text": "Really?"}, {"text": "Yes"}], "prose") == "Really? Yes."

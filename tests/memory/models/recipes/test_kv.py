"""Key-value stores: pairs, queries and the step `kv_get`."""

from typing import Any

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import BadValue, InvalidInput, RecordNotFound, Refused, ValueTooLarge
from memrelay.memory.models.recipes.step import StepCall, StepFailed, all_step_types
from memrelay.memory.models.recipes.table import RecipeTables
from memrelay.memory.operations import Context
from tests.memory.builders import NOW, PLENTY, make_guid, perform

VALUES: list[Any] = ["dark", {"max": 5}, None, [1, "ä\"'"], 1.5, True, ""]


def put(tx: Store, key: str, value: Any, namespace: str = "prefs", **changes: Any) -> Any:
    given = {"instance": "app", "namespace": namespace, "key": key, "value": value}
    return perform(tx, "kv.set", auto_create=True, **given, **changes)


def keys(tx: Store, **wanted: Any) -> list[str]:
    page = perform(tx, "kv.query", **{"instance": "app"} | wanted)
    return [one["key"] for one in page.records]


def run_step(tx: Store, **params: Any) -> tuple[Any, StepCall]:
    call = StepCall(tx, Context(NOW, "tester", PLENTY, make_guid), "a", [], "", {})
    kind = all_step_types()["kv_get"]
    return kind.run(kind.adapter.validate_python(params), call), call


@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_read_as_it_was_written(tx: Store, value: Any) -> None:
    written = put(tx, "k", value)
    assert (written.instance_id, written.value) == ("app", value)

    found = perform(tx, "kv.get", instance="app", namespace="prefs", keys=["none", "k"])

    assert [(one.key, one.value, one.exists) for one in found.items] == [
        ("none", None, False),
        ("k", value, True),
    ]


def test_a_new_value_replaces_the_old_one(tx: Store) -> None:
    put(tx, "k", 1)
    put(tx, "k", 2, now_ms=NOW + 5)

    page = perform(tx, "kv.query", instance="app")

    expected = {
        "namespace": "prefs",
        "key": "k",
        "value": 2,
        "updated_at": "2023-11-14T22:13:20.005Z",
    }
    assert (page.records, page.total) == ((expected,), 1)


def test_an_unknown_instance_is_refused(tx: Store) -> None:
    given = {"instance": "app", "namespace": "n"}
    with pytest.raises(RecordNotFound, match="no key-value store 'app'"):
        perform(tx, "kv.set", key="k", value=1, **given)
    with pytest.raises(RecordNotFound):
        perform(tx, "kv.get", keys=["k"], **given)
    with pytest.raises(StepFailed) as caught:
        run_step(tx, keys=["k"], **given)
    assert caught.value.code == "unknown_instance"


def test_invalid_values_are_refused_and_create_nothing(tx: Store) -> None:
    nested: Any = 1
    for _ in range(150):
        nested = [nested]
    with pytest.raises(BadValue):
        put(tx, "k", nested)
    with pytest.raises(ValueTooLarge):
        put(tx, "k", "x" * 300_000)
    assert perform(tx, "instances.list", sort="kv").items == ()


def test_deletions_count_what_they_deleted(tx: Store) -> None:
    for key in ("a", "b", "c"):
        put(tx, key, 1)
    put(tx, "a", 1, namespace="other")
    place = {"instance": "app", "namespace": "prefs"}

    assert perform(tx, "kv.delete", key="a", **place).deleted
    assert not perform(tx, "kv.delete", key="a", **place).deleted
    assert perform(tx, "kv.namespaces", instance="app").items == ("other", "prefs")
    assert perform(tx, "kv.count", instance="app").count == 3
    assert perform(tx, "kv.clear", **place).deleted == 2
    assert perform(tx, "kv.clear", **place).deleted == 0
    assert perform(tx, "kv.namespaces", instance="app").items == ("other",)
    assert perform(tx, "kv.count", **place).count == 0


def test_a_query_filters_orders_and_pages(tx: Store) -> None:
    for at, key in enumerate(("theme", "timeout", "limits")):
        put(tx, key, {"n": at}, now_ms=NOW + at)

    wheres = [{"field": "key", "operator": "starts_with", "value": "t"}]
    assert keys(tx, namespace="prefs", where=wheres) == ["theme", "timeout"]
    newest = {"field": "updated_at", "direction": "desc"}
    assert keys(tx, order_by=newest, limit=2) == ["limits", "timeout"]
    after = [{"field": "updatedAt", "operator": ">", "value": NOW}]
    page = perform(
        tx, "kv.query", instance="app", where=after, limit=1, offset=1, select=["value.n"]
    )
    assert (page.records, page.total) == (({"value.n": 1},), 2)
    with pytest.raises(InvalidInput) as caught:
        keys(tx, where=[{"field": "value", "operator": "eq", "value": 1}])
    assert caught.value.faults[0].path == "/where/0/field"


def test_a_change_adds_one_row_to_the_feed(tx: Store) -> None:
    put(tx, "k", 1)
    perform(tx, "kv.delete", instance="app", namespace="prefs", key="k")
    perform(tx, "kv.delete", instance="app", namespace="prefs", key="k")
    perform(tx, "kv.clear", instance="app", namespace="prefs")

    found = [(one.type, one.subject, one.data) for one in tx.feed.after(0, 9)]
    place = '{"namespace":"prefs","key":"k"}'
    assert found[0][0] == "record.created"
    assert found[1:] == [("kv.set", "app", place), ("kv.deleted", "app", place)]


def test_the_step_returns_items_in_the_order_of_keys(tx: Store) -> None:
    put(tx, "theme", "dark")
    put(tx, "limits", {"max": 5})

    items, call = run_step(
        tx, instance="app", namespace="prefs", keys=["theme", "missing", "limits"]
    )

    assert items == [
        {"id": "prefs/theme", "key": "theme", "value": "dark", "text": "dark"},
        {"id": "prefs/limits", "key": "limits", "value": {"max": 5}, "text": '{"max":5}'},
    ]
    assert call.warnings == [("missing_key", 'app/prefs has no key "missing"')]


def test_instances_have_ids_names_and_counts(tx: Store) -> None:
    first = perform(tx, "instances.create", sort="kv", name="My app", description="d")
    put(tx, "k", 1, now_ms=NOW + 1)
    assert first.id != "My app"
    assert perform(tx, "instances.get", sort="kv", id="My app") == first

    listed = perform(tx, "instances.list", sort="kv").items
    assert [(one.name, one.record_count, one.namespaces) for one in listed] == [
        ("app", 1, ("prefs",)),
        ("My app", 0, ()),
    ]
    with pytest.raises(Refused, match="another key-value store"):
        perform(tx, "instances.create", sort="kv", name="app")
    with pytest.raises(Refused, match="another key-value store"):
        perform(tx, "instances.update", sort="kv", id="app", name="My app")
    changed = perform(tx, "instances.update", sort="kv", id="My app", name="Mine")
    assert (changed.id, changed.name, changed.description) == (first.id, "Mine", "d")
    assert changed.version != first.version
    # Sorts have names of their own.
    assert perform(tx, "instances.create", sort="events", name="app").event_count == 0
    with pytest.raises(Refused, match="has no template"):
        perform(tx, "instances.create", sort="kv", name="x", template_id="t")


def test_a_deleted_instance_leaves_no_rows(tx: Store) -> None:
    put(tx, "k", 1)
    perform(
        tx,
        "events.append",
        instance="app",
        auto_create=True,
        events=[{"stream_id": "s", "event_type": "t", "payload": 1}],
    )
    perform(tx, "instances.delete", sort="kv", id="app")
    assert tx.table(RecipeTables).kv.count("app") == 0
    assert tx.table(RecipeTables).events.count("app") == 1
    perform(tx, "instances.delete", sort="events", id="app")
    assert tx.table(RecipeTables).events.count("app") == 0
    with pytest.raises(RecordNotFound):
        perform(tx, "instances.get", sort="kv", id="app")

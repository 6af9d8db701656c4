"""MemrelayStore over an embedded store: its results, bounds and errors."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, TypedDict
from uuid import uuid4

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)

from memrelay import EmbeddedStore, open_store
from memrelay.integrations.langgraph import MemrelayStore
from tests.agents.store_batches import Oracle, random_batch, results_of
from tests.support.waiting import wait_for

# 300 batches in all.
SEEDS, BATCHES = 10, 30
ADA = ("users", "ada")


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with open_store(tmp_path / "memory.db") as opened:
        yield opened


@pytest.fixture
def store(embedded: EmbeddedStore) -> MemrelayStore:
    return MemrelayStore(embedded)


class Conversation(TypedDict):
    user: str
    text: str


def keys_of(items: Any) -> list[str]:
    return [item.key for item in items]


def end_of_life(embedded: EmbeddedStore) -> str:
    """Return when the only item expires."""
    (item,) = embedded.records.list(kind="memory.item").items
    assert item.expires_at is not None
    return item.expires_at


def test_16_an_item_is_put_found_listed_and_deleted(store: MemrelayStore) -> None:
    store.put(ADA, "diet", {"food": "pizza"})

    item = store.get(ADA, "diet")
    assert item is not None
    assert (item.namespace, item.key, item.value) == (ADA, "diet", {"food": "pizza"})
    assert item.created_at == item.updated_at and item.created_at.tzinfo is not None
    assert keys_of(store.search(("users",), filter={"food": "pizza"})) == ["diet"]
    assert store.search(("use",)) == []
    assert store.list_namespaces(max_depth=1) == [("users",)]
    store.delete(ADA, "diet")
    assert store.get(ADA, "diet") is None
    assert store.list_namespaces() == []


def test_17_reads_prolong_the_life_of_an_item(
    store: MemrelayStore, embedded: EmbeddedStore
) -> None:
    store.put(("n",), "k", {"t": "tea"}, ttl=10)
    ends = [end_of_life(embedded)]

    for read in (
        lambda: store.get(("n",), "k"),
        lambda: store.search(("n",)),
        lambda: store.search((), query="tea"),
        lambda: store.get(("n",), "k"),
    ):
        time.sleep(0.01)  # longer than the unit of the stored times
        assert read()
        ends.append(end_of_life(embedded))

    assert ends == sorted(set(ends))


def test_17_an_expired_item_is_in_no_answer(store: MemrelayStore) -> None:
    store.put(("n",), "k", {"t": "tea"}, ttl=0.00001)

    wait_for(lambda: store.get(("n",), "k") is None, "the item expires")

    assert store.search(("n",)) == [] == store.search((), query="tea")
    assert store.list_namespaces() == []


@pytest.mark.parametrize("seed", range(SEEDS))
def test_18_random_batches_equal_those_of_a_dictionary(store: MemrelayStore, seed: int) -> None:
    chance, oracle = Random(seed), Oracle()

    for _ in range(BATCHES):
        ops = random_batch(chance)

        assert results_of(store, ops) == results_of(oracle, ops), ops


def test_18_concurrent_puts_of_one_key_leave_one_record(
    store: MemrelayStore, embedded: EmbeddedStore
) -> None:
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda n: store.put(("n",), "k", {"n": n}), range(32)))

    assert embedded.records.list(kind="memory.item").total == 1


def test_the_example_of_langgraphs_documentation(store: MemrelayStore) -> None:
    namespace, memory_id = ("1", "memories"), str(uuid4())
    store.put(namespace, memory_id, {"food_preference": "I like pizza"})

    (memory,) = store.search(namespace)
    assert memory.dict()["value"] == {"food_preference": "I like pizza"}
    (found,) = store.search(namespace, query="Which pizza does the user like?", limit=3)
    assert (found.key, found.score is not None and found.score > 0) == (memory_id, True)


def test_a_graph_reads_and_writes_the_store(store: MemrelayStore) -> None:
    def remember(state: Conversation, runtime: Runtime[Any]) -> dict[str, Any]:
        assert runtime.store is not None
        runtime.store.put(("users", state["user"]), "name", {"name": state["text"]})
        return {}

    async def greet(state: Conversation, runtime: Runtime[Any]) -> dict[str, Any]:
        assert runtime.store is not None
        found = await runtime.store.aget(("users", state["user"]), "name")
        return {"text": f"Hello {found.value['name']}"} if found else {}

    graph: Any = StateGraph(Conversation)
    graph.add_node("remember", remember)
    graph.add_node("greet", greet)
    graph.add_edge(START, "remember")
    graph.add_edge("remember", "greet")
    graph.add_edge("greet", END)

    answer = asyncio.run(graph.compile(store=store).ainvoke({"user": "7", "text": "Ada"}))

    assert answer["text"] == "Hello Ada"


def test_a_batch_reads_before_it_writes(store: MemrelayStore) -> None:
    store.put(("n",), "k", {"v": 1})

    results = store.batch(
        [
            PutOp(("n",), "k", {"v": 2}),
            GetOp(("n",), "k"),
            PutOp(("n",), "k", {"v": 3}),
            SearchOp(("n",)),
            PutOp(("m",), "gone", {"v": 4}),
            PutOp(("m",), "gone", None),
            ListNamespacesOp(),
        ]
    )

    assert results[1].value == results[3][0].value == {"v": 1}
    assert results[6] == [("n",)]
    assert [results[place] for place in (0, 2, 4, 5)] == [None] * 4
    assert store.get(("n",), "k").value == {"v": 3}
    assert store.get(("m",), "gone") is None


def test_an_asynchronous_batch_has_the_same_results(store: MemrelayStore) -> None:
    async def run() -> Any:
        await store.aput(ADA, "diet", {"food": "pizza"})
        return await store.aget(ADA, "diet"), await store.asearch(("users",), query="pizza")

    item, found = asyncio.run(run())

    assert item.value == {"food": "pizza"} == found[0].value


def test_replacing_an_item_keeps_its_creation_time(store: MemrelayStore) -> None:
    store.put(("n",), "k", {"v": 1})
    first = store.get(("n",), "k")
    store.put(("n",), "k", {"v": 2})
    second = store.get(("n",), "k")

    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at


def test_a_search_without_a_query_has_the_newest_change_first(store: MemrelayStore) -> None:
    for key in "abca":
        store.put(("n",), key, {})
        # Changes within a millisecond keep the order of arrival.
        time.sleep(0.002)

    assert keys_of(store.search(())) == ["a", "c", "b"]
    assert keys_of(store.search((), limit=1, offset=1)) == ["c"]
    assert [item.score for item in store.search(())] == [None] * 3


def test_pages_of_many_long_items_are_complete(store: MemrelayStore) -> None:
    puts = [PutOp(("n", str(n)), "k", {"t": str(n) * 500}) for n in range(1200)]
    store.batch(puts)

    found = store.search((), limit=1150, offset=20)

    assert len({item.namespace for item in found}) == len(found) == 1150
    assert len(store.list_namespaces(limit=2000)) == 1200
    assert len(store.batch([GetOp(op.namespace, "k") for op in puts])) == 1200


def test_a_query_is_plain_text(store: MemrelayStore) -> None:
    store.put(("n",), "a", {"text": "green tea"})
    store.put(("n",), "b", {"text": "coffee"})

    for query in ("tea", '"tea', "tea kind:note", "tea -green", "tea AND *"):
        assert keys_of(store.search(("n",), query=query))[:1] == ["a"]
    assert store.search(("n",), query="!?") == []


def test_fields_decide_what_a_query_finds(embedded: EmbeddedStore) -> None:
    store = MemrelayStore(embedded, index={"fields": ["title", "parts[*].text"]})
    value = {"title": "breakfast", "parts": [{"text": "porridge"}, {"text": "tea"}], "note": "x1"}
    store.put(("n",), "default", value)
    store.put(("n",), "own", value, index=["note"])
    store.put(("n",), "hidden", value, index=False)

    assert keys_of(store.search((), query="porridge")) == ["default"]
    assert keys_of(store.search((), query="tea breakfast")) == ["default"]
    assert keys_of(store.search((), query="x1")) == ["own"]
    assert len(store.search(())) == 3 and store.get(("n",), "hidden").value == value


def test_a_query_finds_words_of_keys_and_values_at_any_depth(
    store: MemrelayStore, embedded: EmbeddedStore
) -> None:
    value = {"home_town": "Rome", "trips": [{"to": "Oslo", "in": [2025, 26]}, None], "plan": {}}
    store.put(("n",), "k", value)

    for query in ("home", "town", "rome", "oslo", "2025", "trips to"):
        assert keys_of(store.search((), query=query)) == ["k"]
    (record,) = embedded.records.list(kind="memory.item").items
    assert record.content == "home town: Rome\ntrips to: Oslo\ntrips in: 2025, 26"


def test_a_query_has_filter_prefix_and_offset(store: MemrelayStore) -> None:
    for number in range(4):
        store.put(("n", str(number)), "k", {"text": "tea", "n": number})

    found = store.search(("n",), query="tea", filter={"n": {"$gte": 1}}, offset=1, limit=5)

    assert len(found) == 2 and all(item.value["n"] > 0 for item in found)
    assert store.search(("n", "3"), query="tea")[0].value["n"] == 3


def test_items_are_not_among_the_records_of_other_searches(
    store: MemrelayStore, embedded: EmbeddedStore
) -> None:
    store.put(("n",), "k", {"text": "tea"})
    embedded.records.create("tea", kind="note", scope="n")

    assert keys_of(store.search((), query="tea")) == ["k"]
    assert keys_of(store.search(())) == ["k"]


def test_the_default_time_to_live_and_reads_that_do_not_prolong_it(
    embedded: EmbeddedStore,
) -> None:
    store = MemrelayStore(embedded, ttl={"default_ttl": 0.5, "refresh_on_read": False})
    store.put(("n",), "default", {})
    store.put(("n",), "never", {}, ttl=None)

    def ends() -> list[Any]:
        return [one.expires_at for one in embedded.records.list(kind="memory.item").items]

    before = ends()
    time.sleep(0.01)
    store.get(("n",), "default")
    store.search(())
    assert ends() == before and [end is None for end in before] == [False, True]
    store.get(("n",), "default", refresh_ttl=True)
    assert ends()[0] > before[0]


def nested(depth: int) -> dict[str, Any]:
    return {"a": nested(depth - 1)} if depth else {}


@pytest.mark.parametrize(
    ("op", "rule"),
    [
        (PutOp(("n",), "k", {}, ttl=0), "above 0"),
        (PutOp(("n",), "k", {}, ttl=-1), "above 0"),
        (PutOp(("n",), "k", {}, ttl=float("nan")), "above 0"),
        (PutOp(("n",), "k", {"t": "x" * (1 << 16)}), "65536 bytes"),
        (PutOp(("n",), "k", nested(16)), "16 deep"),
        (PutOp(("n",), "k", {"n": float("inf")}), "must be finite"),
        (PutOp(("n",), "k", {"t": (1,)}), "must be a JSON value"),
        (PutOp(("n",), "k", ["t"]), "a dictionary, not list"),
        (PutOp(("n",), "k", {}, index="t"), "lists of paths"),
        (PutOp(("n",), "", {}), "1 to 256 characters"),
        (PutOp(("n",), "k" * 257, {}), "1 to 256 characters"),
        (GetOp(("n",), "\ud800"), "valid Unicode"),
        (SearchOp((), {"tags": ["a"]}), "not with a list"),
        (SearchOp((), {"tags": {"$eq": ["a"]}}), "not with a list"),
        (SearchOp((), {"n": {"$in": 1}}), r"unknown operator '\$in'"),
        (SearchOp((), {"n": {"$gte": 1, "x": 2}}), "unknown operator 'x'"),
        (SearchOp((), {"n": {"$gt": None}}), "text or a number"),
        (SearchOp((), {"n": {}}), "empty object"),
        (SearchOp((), {1: 2}), "are texts"),
        (SearchOp((), limit=-1), "integers from 0 on"),
        (SearchOp((), query="tea", limit=900, offset=101), "at most 1000 results"),
        (ListNamespacesOp(max_depth=0), "above 0"),
        (ListNamespacesOp(offset=-1), "integers from 0 on"),
        ("get", "unknown operation str"),
    ],
)
def test_an_invalid_operation_is_refused_and_nothing_runs(
    store: MemrelayStore, op: Any, rule: str
) -> None:
    with pytest.raises(ValueError, match=rule):
        store.batch([PutOp(("n",), "other", {}), op])

    assert store.search(()) == []


@pytest.mark.parametrize(
    "namespace", [(), ("",), ("a.b",), (1,), ("n" * 257,), ("n" * 200, "n" * 56), ("\ud800",)]
)
def test_an_invalid_namespace_is_refused(store: MemrelayStore, namespace: Any) -> None:
    ops = [GetOp(namespace, "k"), PutOp(namespace, "k", {}), PutOp(namespace, "k", None)]
    if namespace:
        path = MatchCondition("prefix", namespace)
        ops += [SearchOp(namespace), ListNamespacesOp((path,))]

    for op in ops:
        with pytest.raises(InvalidNamespaceError):
            store.batch([op])
    with pytest.raises(InvalidNamespaceError):
        store.put(namespace, "k", {})


def test_the_root_of_langgraph_is_reserved(store: MemrelayStore) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.put(("langgraph", "x"), "k", {})


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"index": {"embed": "openai:x", "dims": 3}}, "omit dims, embed"),
        ({"index": {"dims": 3}}, "omit dims"),
        ({"index": {"field": ["t"]}}, "it is unknown"),
        ({"index": {"fields": "t"}}, "lists of paths"),
        ({"ttl": {"default_ttl": 0}}, "above 0"),
        ({"store": ""}, "not allowed"),
        ({"store": "../x"}, "not allowed"),
    ],
)
def test_invalid_settings_are_refused(
    embedded: EmbeddedStore, settings: dict[str, Any], rule: str
) -> None:
    with pytest.raises(ValueError, match=rule):
        MemrelayStore(embedded, **settings)

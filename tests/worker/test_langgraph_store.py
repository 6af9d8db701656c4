"""The home `langgraph`: items of LangGraph stores, which no bundle names."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bundles import make_bundle, make_uid
from tests.support.calls import call, call_all, make_call, refused
from tests.support.embedding_server import KEY, embedding_server
from tests.support.system import TestSystem
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def home() -> Iterator[TestSystem]:
    """A system with a worker."""
    with TestSystem() as system:
        system.start_worker()
        yield system


@pytest.fixture
def uid(home: TestSystem) -> str:
    """A pipeline without items."""
    name = make_uid()
    home.deploy(make_bundle(name))
    return name


QUERY = "SELECT length(vector) > 0 FROM vectors_0 ORDER BY 1"


def item(key: str, text: str, **more: Any) -> dict[str, Any]:
    return {"scope": "n", "key": key, "data": {"value": {"text": text}}, "content": text} | more


def put(system: TestSystem, uid: str, *items: dict[str, Any]) -> Any:
    return call(system, uid, "records.put", {"items": items})


def test_items_are_in_a_file_of_their_own_from_the_first_use_on(home: TestSystem, uid: str) -> None:
    home.client.answer(uid, "/write coffee")
    folder = home.store_file(uid).parent
    assert sorted(file.name for file in folder.glob("*.db")) == ["memories.db"]

    put(home, uid, item("k", "green tea"))

    assert sorted(file.name for file in folder.glob("*.db")) == ["langgraph.db", "memories.db"]
    found = call(home, uid, "records.find", {"scope": "n", "keys": ["k", "other"]})
    assert [one["data"]["value"] for one in found["items"]] == [{"text": "green tea"}]


def test_records_accept_the_home_by_its_memory_id_and_its_name(home: TestSystem, uid: str) -> None:
    put(home, uid, item("k", "green tea"))
    kind = {"kind": "memory.item"}

    listed = call(home, uid, "records.list", kind, store=f"instances/{uid}/langgraph")
    found = call(home, uid, "records.search", kind | {"query": "tea"}, store="langgraph")

    assert listed["items"] == [hit["record"] for hit in found["items"]]
    assert call(home, uid, "records.list", kind)["total"] == 0
    assert home.client.answer(uid, "/search tea") == []
    assert "names no store" in refused(home, uid, "records.list", store="nothing")[1]


def test_items_may_be_in_another_store_of_the_bundle(home: TestSystem, uid: str) -> None:
    store, items = f"instances/{uid}/memories", {"items": [item("k", "green tea")]}
    call(home, uid, "records.put", items, store=store)

    wanted = {"scope": "n", "keys": ["k"]}
    assert len(call(home, uid, "records.find", wanted, store=store)["items"]) == 1
    assert call(home, uid, "records.find", wanted)["items"] == []
    closed = f"instances/{uid}/stores"
    assert "holds the items of agents" in refused(home, uid, "records.put", items, store=closed)[1]


def test_concurrent_puts_of_one_key_leave_one_record(home: TestSystem, uid: str) -> None:
    calls = [
        make_call(uid, "records.put", {"items": [item("k", str(number))]}) for number in range(32)
    ]

    outputs = [answer["output"] for answer in call_all(home, *calls)]

    assert len({output["guids"][0] for output in outputs}) == 1
    assert sum(output["created"] for output in outputs) == 1


def test_items_with_text_get_vectors_and_are_found_by_meaning() -> None:
    uid = make_uid()
    with embedding_server() as server, TestSystem() as system:
        options = {
            "model": "endpoint",
            "url": server.url,
            "name": "letters",
            "key": KEY,
            "private": True,
        }
        system.start_worker(bundles=[make_bundle(uid)], embedding=options)
        put(system, uid, item("k", "listen"), item("hidden", "listen", content=""))
        wait_for(
            lambda: system.rows(uid, QUERY, "langgraph") == [(0,), (1,)],
            "only the item with text has a vector",
        )

        wanted = {"query": "silent", "mode": "hybrid", "plain": True, "kind": "memory.item"}
        found = call(system, uid, "records.search", wanted, store=f"instances/{uid}/langgraph")

        assert [hit["record"]["key"] for hit in found["items"]] == ["k"]
        assert system.rows(uid, "SELECT count(*) FROM records", "langgraph") == [(2,)]

"""MemrelayStore over HTTP, against a running worker."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from langgraph.store.base import PutOp

from memrelay import BlockingClient, connect, connect_sync
from memrelay.errors import RelayError
from memrelay.integrations.langgraph import MemrelayStore
from tests.agents.store_batches import Oracle, random_batch, results_of
from tests.support.bundles import make_agent
from tests.support.keys import await_closed, make_key
from tests.support.web_system import WebSystem

ADA = ("users", "ada")


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as web_system:
        yield web_system


@pytest.fixture(scope="module")
def client(web_system: WebSystem) -> Iterator[BlockingClient]:
    with connect_sync(web_system.url) as client:
        yield client


@pytest.fixture
def uid(web_system: WebSystem) -> str:
    """A new pipeline."""
    return web_system.deploy()


@pytest.fixture
def store(client: BlockingClient, uid: str) -> MemrelayStore:
    return MemrelayStore(client, store=f"instances/{uid}/langgraph")


def test_the_only_pipeline_needs_no_name() -> None:
    with WebSystem() as web_system, connect_sync(web_system.url) as client:
        web_system.deploy()
        store = MemrelayStore(client)
        store.put(ADA, "diet", {"food": "pizza"})

        assert [item.key for item in store.search(("users",))] == ["diet"]


def test_16_an_item_is_put_found_listed_and_deleted(store: MemrelayStore) -> None:
    store.put(ADA, "diet", {"food": "pizza"}, ttl=5)

    item = store.get(ADA, "diet")
    assert item is not None and item.value == {"food": "pizza"}
    assert len(store.search(("users",), filter={"food": "pizza"})) == 1
    assert store.search(("use",)) == []
    assert store.list_namespaces(max_depth=1) == [("users",)]
    store.delete(ADA, "diet")
    assert store.get(ADA, "diet") is None


def test_random_batches_equal_those_of_a_dictionary(store: MemrelayStore) -> None:
    chance, oracle = Random(300), Oracle()

    for _ in range(20):
        ops = random_batch(chance)

        assert results_of(store, ops) == results_of(oracle, ops), ops


def test_18_concurrent_puts_of_one_key_leave_one_record(
    store: MemrelayStore, client: BlockingClient, uid: str
) -> None:
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda n: store.put(("n",), "k", {"n": n}), range(32)))

    assert client.records.list(uid, kind="memory.item", store="langgraph").total == 1


def test_an_asynchronous_client_runs_the_example_of_the_documentation(
    web_system: WebSystem, uid: str
) -> None:
    async def run() -> None:
        async with connect(web_system.url) as client:
            store = MemrelayStore(client, store=f"instances/{uid}/langgraph")
            await store.aput(("1", "memories"), "m1", {"food_preference": "I like pizza"})
            await store.aput(("1", "memories"), "m2", {"drink": "tea"}, index=False)

            found = await store.asearch(("1", "memories"), query="pizza", limit=3)
            assert [item.value for item in found] == [{"food_preference": "I like pizza"}]
            assert found[0].score is not None and found[0].score > 0
            with pytest.raises(TypeError, match="async"):
                store.get(("1", "memories"), "m1")

    asyncio.run(run())


def test_a_batch_larger_than_a_message_is_written_in_parts(store: MemrelayStore) -> None:
    text = "x" * 60_000
    store.batch([PutOp(("n",), str(number), {"t": text}, index=False) for number in range(160)])

    assert len(store.search(("n",), limit=200)) == 160
    assert store.get(("n",), "159").value == {"t": text}


def test_another_store_of_the_bundle_has_items_of_its_own(
    web_system: WebSystem, client: BlockingClient
) -> None:
    notes = make_agent("notes", "memory_read", {"memory_id": "instances/${pipeline_uid}/notes"})
    uid = web_system.deploy(notes)
    own, other = (
        MemrelayStore(client, store=f"instances/{uid}/{name}") for name in ("notes", "langgraph")
    )
    own.put(ADA, "diet", {"food": "pizza"})

    assert own.get(ADA, "diet") is not None
    assert other.get(ADA, "diet") is None
    with pytest.raises(RelayError, match="names no store"):
        MemrelayStore(client, store=f"instances/{uid}/nothing").get(ADA, "diet")


def test_a_key_without_write_access_reads_items_that_never_expire() -> None:
    with WebSystem() as web_system:
        uid = web_system.deploy()
        root = web_system.system.root
        owner, reader = (make_key(root, *scopes, pipelines=(uid,)) for scopes in ((), ("read",)))
        await_closed(web_system)
        with connect_sync(web_system.url, owner.text) as owning:
            store = MemrelayStore(owning)
            store.put(ADA, "diet", {"food": "pizza"})
            store.put(ADA, "guest", {"food": "pasta"}, ttl=5)
        with connect_sync(web_system.url, reader.text) as reading:
            store = MemrelayStore(reading)

            assert store.get(ADA, "diet").value == {"food": "pizza"}
            assert store.get(ADA, "guest", refresh_ttl=False).value == {"food": "pasta"}
            with pytest.raises(RelayError, match="write"):
                store.get(ADA, "guest")

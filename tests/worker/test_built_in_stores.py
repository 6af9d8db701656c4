"""Homes: stores of a pipeline for items and for other models, which no bundle names."""

import shutil
from collections.abc import Iterator

import pytest

from tests.support.bundles import make_agent, make_bundle, make_uid
from tests.support.calls import call, call_all, make_call, refused
from tests.support.embedding_server import KEY, embedding_server
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

AGENT = {"agent": "a1"}


@pytest.fixture(scope="module")
def home() -> Iterator[TestSystem]:
    """A system with a worker."""
    with TestSystem() as system:
        system.start_worker()
        yield system


def deploy(system: TestSystem) -> str:
    uid = make_uid()
    system.deploy(make_bundle(uid))
    return uid


def put(system: TestSystem, uid: str, key: str = "k", value: str = "green tea", **how: str) -> None:
    call(system, uid, "items.put", AGENT | {"store": "a1", "key": key, "value": value}, **how)


def test_the_file_of_a_home_exists_from_its_first_use_on(home: TestSystem) -> None:
    uid = deploy(home)
    home.client.answer(uid, "/write tea")
    call(home, uid, "records.create", {"content": "tea"}, producer_id="k")
    folder = home.store_file(uid).parent
    assert sorted(file.name for file in folder.glob("*.db")) == ["memories.db"]

    put(home, uid)

    assert sorted(file.name for file in folder.glob("*.db")) == ["memories.db", "stores.db"]


def test_an_item_is_absent_from_records_and_chat(home: TestSystem) -> None:
    uid = deploy(home)
    put(home, uid)

    assert home.client.answer(uid, "/search tea") == []
    for name, given in (("records.list", {}), ("records.search", {"query": "tea"})):
        assert call(home, uid, name, given)["items"] == []
    assert call(home, uid, "knowledge.search", {"query": "tea"})["results"] == []


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("records.create", {"content": "x"}),
        ("records.list", {}),
        ("records.search", {"query": "tea"}),
        ("records.get", {"guid": "g"}),
        ("records.update", {"guid": "g", "content": "x"}),
        ("records.delete", {"guid": "g"}),
        ("records.history", {"guid": "g"}),
    ],
)
def test_operations_on_records_refuse_the_home_of_items(
    home: TestSystem, name: str, given: dict[str, str]
) -> None:
    uid = make_uid()
    home.deploy(make_bundle(uid))
    put(home, uid)

    code, detail = refused(home, uid, name, given, store=f"instances/{uid}/stores")

    assert code == "refused" and "holds the items of agents" in detail


def test_an_admin_erases_items(home: TestSystem) -> None:
    uid = deploy(home)
    put(home, uid, value="a secret recipe")
    store = f"instances/{uid}/stores"
    erased = call(home, uid, "records.erase", {"text": "secret recipe"}, store=store)
    assert erased == {"records": 1, "versions": 0, "number": 1}
    assert refused(home, uid, "items.get", AGENT | {"store": "a1", "key": "k"})[0] == "not_found"
    wait_for(
        lambda: call(home, uid, "records.erasures", {}, store=store)["items"][0]["ended_at"],
        "the erasure ended",
    )


def test_an_operation_of_a_home_refuses_another_store(home: TestSystem) -> None:
    uid = deploy(home)
    for store in (f"instances/{uid}/memories", f"instances/{uid}/recipes"):
        code, detail = refused(home, uid, "stores.list", AGENT, store=store)
        assert code == "refused" and f"works only on instances/{uid}/stores" in detail


def test_a_pipeline_whose_only_store_is_the_home_of_items_has_no_records() -> None:
    uid = make_uid()
    args = {"memory_id": "instances/${pipeline_uid}/stores"}
    bundle = make_bundle(uid, make_agent("items", "test_counts_items", args, senders="User"))
    with TestSystem() as system:
        system.start_worker(bundles=[bundle])
        put(system, uid)

        code, detail = refused(system, uid, "records.list")

        assert code == "refused" and "holds the items of agents" in detail
        assert system.client.answer(uid, "how many?") == 1
        assert call(system, uid, "stores.list", AGENT)["stores"][0]["store"] == "a1"


def test_an_idempotency_key_is_known_in_every_home_after_a_crash() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid)])
        share = AGENT | {"store": "a1", "grantee": "a2"}
        first = call(system, uid, "grants.set", share, producer_id="once")
        worker.kill()
        system.start_worker()

        assert call(system, uid, "grants.set", share, producer_id="once") == first
        for name, given in (
            ("grants.set", share | {"level": "search"}),
            ("records.create", {"content": "x"}),
            ("memories.create", {"name": "x"}),
        ):
            assert refused(system, uid, name, given, producer_id="once")[0] == "key_reused"
        epochs = {system.rows(uid, "SELECT epoch FROM fence", alias)[0][0] for alias in ALIASES}
        assert len(epochs) == 1 and epochs != {0}


ALIASES = ("memories", "stores")


def test_a_key_in_a_home_that_a_call_of_the_same_batch_creates_is_known() -> None:
    uid = make_uid()
    with TestSystem() as system:
        share = AGENT | {"store": "a1", "grantee": "a2"}
        system.start_worker(bundles=[make_bundle(uid)])
        call(system, uid, "records.create", {"content": "x"})
        calls = [make_call(uid, "grants.set", share, producer_id="once") for _ in range(20)]
        answers = call_all(system, *calls)

        assert len({str(answer["output"]) for answer in answers}) == 1


def test_items_get_vectors_and_a_home_at_rest_keeps_them() -> None:
    uid = make_uid()
    with embedding_server() as server, TestSystem() as system:
        options = {
            "model": "endpoint",
            "url": server.url,
            "name": "letters",
            "key": KEY,
            "private": True,
        }
        worker = system.start_worker(bundles=[make_bundle(uid)], embedding=options)
        put(system, uid, "k", "listen silent tea")

        def vectors() -> int:
            return int(system.rows(uid, "SELECT count(*) FROM vectors_0", "stores")[0][0])

        wait_for(lambda: vectors() == 1, "the item has a vector")
        worker.stop()
        system.start_worker(embedding=options)
        put(system, uid, "k2", "coffee mug")
        wait_for(lambda: vectors() == 2, "the second item has a vector")
        assert system.rows(uid, "SELECT count(*) FROM records", "stores") == [(2,)]


def test_a_lost_home_is_noticed() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid)])
        put(system, uid)
        kept = system.store_file(uid, "stores")
        worker.kill()
        shutil.move(kept, kept.with_suffix(".gone"))
        system.start_worker(ready=False)
        note = kept.with_name("stores.db.damaged")
        wait_for(note.exists, "the loss is noted")

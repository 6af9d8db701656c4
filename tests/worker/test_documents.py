"""Documents in a running worker: vectors, other stores, and absence from the chat."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bundles import make_bundle, make_uid
from tests.support.calls import call, refused
from tests.support.embedding_server import KEY, EmbeddingServer, embedding_server
from tests.support.house import House
from tests.support.waiting import wait_for

PUT = {"collection": "docs", "uri": "a.md", "text": "Green tea is made at 80 degrees."}


def options(server: EmbeddingServer) -> dict[str, Any]:
    return {
        "model": "endpoint",
        "url": server.url,
        "name": "letters",
        "key": KEY,
        "private": True,
    }


def count_vectors(house: House, uid: str) -> int:
    return int(house.rows(uid, "SELECT count(*) FROM vectors_0", "recipes")[0][0])


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """A house with a worker and an embedder."""
    with embedding_server() as server, House() as house:
        house.start_worker(embedding=options(server))
        yield house


@pytest.fixture
def uid(house: House) -> str:
    uid = make_uid()
    house.deploy(make_bundle(uid))
    return uid


def test_documents_get_vectors_and_are_absent_from_the_chat(house: House, uid: str) -> None:
    call(house, uid, "documents.put", PUT)

    wait_for(lambda: count_vectors(house, uid) == 1, "the document has a vector")
    found = call(house, uid, "documents.search", {"collection": "docs", "query": "green tea"})
    assert [item["uri"] for item in found["items"]] == ["a.md"]
    assert house.client.answer(uid, "/search tea") == []
    assert call(house, uid, "knowledge.search", {"query": "tea"})["results"] == []


def test_a_search_reads_other_stores_of_the_pipeline(house: House, uid: str) -> None:
    chat = f"instances/{uid}/memories"
    memory = call(house, uid, "memories.create", {"name": "Customer"})["id"]
    call(house, uid, "entries.create", {"memory_id": memory, "content": "Ada prefers green tea"})
    house.client.answer(uid, "/write the kettle is hot")

    for collection, query, text in (
        ("memory:Customer", "green tea", "Ada prefers green tea"),
        (f"memory:{memory}", "green tea", "Ada prefers green tea"),
        (f"store:{chat}", "kettle", "the kettle is hot"),
    ):
        wanted = {"collection": collection, "query": query, "mode": "fts"}
        assert call(house, uid, "documents.search", wanted)["items"][0]["text"] == text


@pytest.mark.parametrize("collection", ["nothing", "memory:Nobody", "store:instances/x/memories"])
def test_an_unknown_collection_is_not_found(house: House, uid: str, collection: str) -> None:
    wanted = {"collection": collection, "query": "tea"}

    code, detail = refused(house, uid, "documents.search", wanted)

    assert code == "not_found" and detail.startswith("unknown collection")


def test_documents_from_before_the_embedder_get_vectors() -> None:
    uid = make_uid()
    with embedding_server() as server, House() as house:
        worker = house.start_worker(bundles=[make_bundle(uid)])
        call(house, uid, "documents.put", PUT)
        worker.stop()

        house.start_worker(embedding=options(server))

        wait_for(lambda: count_vectors(house, uid) == 1, "the document has a vector")

"""Documents in a running worker: vectors, other stores, and absence from the chat."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bundles import make_bundle, make_uid
from tests.support.calls import call, refused
from tests.support.embedding_server import KEY, EmbeddingServer, embedding_server
from tests.support.system import TestSystem
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


def count_vectors(system: TestSystem, uid: str) -> int:
    return int(system.rows(uid, "SELECT count(*) FROM vectors_0", "recipes")[0][0])


@pytest.fixture(scope="module")
def system() -> Iterator[TestSystem]:
    """A system with a worker and an embedder."""
    with embedding_server() as server, TestSystem() as system:
        system.start_worker(embedding=options(server))
        yield system


@pytest.fixture
def uid(system: TestSystem) -> str:
    uid = make_uid()
    system.deploy(make_bundle(uid))
    return uid


def test_documents_get_vectors_and_are_absent_from_the_chat(system: TestSystem, uid: str) -> None:
    call(system, uid, "documents.put", PUT)

    wait_for(lambda: count_vectors(system, uid) == 1, "the document has a vector")
    found = call(system, uid, "documents.search", {"collection": "docs", "query": "green tea"})
    assert [item["uri"] for item in found["items"]] == ["a.md"]
    assert system.client.answer(uid, "/search tea") == []
    assert call(system, uid, "knowledge.search", {"query": "tea"})["results"] == []


def test_a_search_reads_other_stores_of_the_pipeline(system: TestSystem, uid: str) -> None:
    chat = f"instances/{uid}/memories"
    memory = call(system, uid, "memories.create", {"name": "Customer"})["id"]
    call(system, uid, "entries.create", {"memory_id": memory, "content": "Ada prefers green tea"})
    system.client.answer(uid, "/write the kettle is hot")

    for collection, query, text in (
        ("memory:Customer", "green tea", "Ada prefers green tea"),
        (f"memory:{memory}", "green tea", "Ada prefers green tea"),
        (f"store:{chat}", "kettle", "the kettle is hot"),
    ):
        wanted = {"collection": collection, "query": query, "mode": "fts"}
        assert call(system, uid, "documents.search", wanted)["items"][0]["text"] == text


@pytest.mark.parametrize("collection", ["nothing", "memory:Nobody", "store:instances/x/memories"])
def test_an_unknown_collection_is_not_found(system: TestSystem, uid: str, collection: str) -> None:
    wanted = {"collection": collection, "query": "tea"}

    code, detail = refused(system, uid, "documents.search", wanted)

    assert code == "not_found" and detail.startswith("unknown collection")


def test_documents_from_before_the_embedder_get_vectors() -> None:
    uid = make_uid()
    with embedding_server() as server, TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid)])
        call(system, uid, "documents.put", PUT)
        worker.stop()

        system.start_worker(embedding=options(server))

        wait_for(lambda: count_vectors(system, uid) == 1, "the document has a vector")

"""Vectors of a store are switched on by an operation or by the bundle."""

from tests.support.bundles import make_bundle, make_uid
from tests.support.calls import call, refused
from tests.support.system import TestSystem
from tests.worker.test_vectors import await_vectors, embedding_system


def test_records_embed_switches_vectors_on() -> None:
    uid, other = make_uid(), make_uid()
    with embedding_system(other) as (system, _):
        system.deploy(make_bundle(uid))
        system.client.answer(uid, "/write aaa")

        before = call(system, uid, "records.search", {"query": "bbb"})
        assert (before["mode"], before["nothing"]["reason"]) == ("fts", "unknown")
        assert call(system, uid, "records.embed") == {"missing": 1}

        await_vectors(system, uid, 1)
        system.client.answer(uid, "/write bbb")
        await_vectors(system, uid, 2)
        assert call(system, uid, "records.embed") == {"missing": 0}
        found = call(system, uid, "records.search", {"query": "bb", "mode": "semantic"})
        assert [item["record"]["content"] for item in found["items"]] == ["bbb"]
        by_default = call(system, uid, "records.search", {"query": "bbb"})
        assert (by_default["mode"], by_default["degraded"]) == ("hybrid", None)


def test_a_declared_store_has_vectors() -> None:
    uid, other = make_uid(), make_uid()
    with embedding_system(other) as (system, _):
        stores = [{"memory_id": f"instances/{uid}/memories", "vectors": True}]
        system.deploy(make_bundle(uid, stores=stores))

        system.client.answer(uid, "/write aaa")

        await_vectors(system, uid, 1)


def test_records_embed_is_refused_without_an_embedder() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)], embedding={"model": "none"})

        code, detail = refused(system, uid, "records.embed")

        assert code == "refused" and "set `embedding.model`" in detail

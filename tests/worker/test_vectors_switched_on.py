"""Vectors of a store are switched on by an operation or by the bundle."""

from tests.support.bundles import make_bundle, make_uid
from tests.support.calls import call, refused
from tests.support.house import House
from tests.worker.test_vectors import await_vectors, embedding_house


def test_records_embed_switches_vectors_on() -> None:
    uid, other = make_uid(), make_uid()
    with embedding_house(other) as (house, _):
        house.deploy(make_bundle(uid))
        house.client.answer(uid, "/write aaa")

        assert call(house, uid, "records.embed") == {"missing": 1}

        await_vectors(house, uid, 1)
        house.client.answer(uid, "/write bbb")
        await_vectors(house, uid, 2)
        assert call(house, uid, "records.embed") == {"missing": 0}
        found = call(house, uid, "records.search", {"query": "bb", "mode": "semantic"})
        assert [item["record"]["content"] for item in found["items"]] == ["bbb"]


def test_a_declared_store_has_vectors() -> None:
    uid, other = make_uid(), make_uid()
    with embedding_house(other) as (house, _):
        stores = [{"memory_id": f"instances/{uid}/memories", "vectors": True}]
        house.deploy(make_bundle(uid, stores=stores))

        house.client.answer(uid, "/write aaa")

        await_vectors(house, uid, 1)


def test_records_embed_is_refused_without_an_embedder() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)], embedding={"model": "none"})

        code, detail = refused(house, uid, "records.embed")

        assert code == "refused" and "set `embedding.model`" in detail

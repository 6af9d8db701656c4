"""Named memories in a worker: entries are embedded before their write, without a long wait."""

import time
from typing import Any

from tests.support.bundles import make_agent, make_bundle, make_commands, make_uid
from tests.support.calls import call, call_all, make_call, refused
from tests.support.embedding_server import KEY, EmbeddingServer, embedding_server
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

FACTS = ["listen silent tea", "coffee mug", "quiz jinx"]
ALIKE = "enlist inlets eat"  # equal texts for an embedder that counts letters


def options(server: EmbeddingServer) -> dict[str, Any]:
    return {"model": "endpoint", "url": server.url, "name": "letters", "key": KEY, "private": True}


def make_memory(system: TestSystem, uid: str) -> str:
    return str(call(system, uid, "memories.create", {"name": "notes"})["id"])


def write(system: TestSystem, uid: str, memory: str, content: str, **keys: Any) -> dict[str, Any]:
    told: dict[str, Any] = call(
        system, uid, "entries.create", {"memory_id": memory, "content": content} | keys
    )
    return told


def vectors(system: TestSystem, uid: str) -> int:
    return int(system.rows(uid, "SELECT count(*) FROM vectors_0")[0][0])


def test_a_similar_entry_is_found_at_once_and_after_a_restart() -> None:
    uid = make_uid()
    with embedding_server() as server, TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid)], embedding=options(server))
        memory = make_memory(system, uid)
        first = [write(system, uid, memory, fact) for fact in FACTS]
        again = write(system, uid, memory, ALIKE, duplicate_threshold=0.5)
        worker.stop()
        system.start_worker(embedding=options(server))
        later = write(system, uid, memory, ALIKE, duplicate_threshold=0.5)

        assert [one["action"] for one in first] == ["created"] * 3
        assert (again["action"], later["action"]) == ("skipped", "skipped")
        assert again["id"] == later["id"] == first[0]["id"] and later["confirmations"] == 2
        wait_for(lambda: vectors(system, uid) == 3, "all have vectors")


def test_a_similar_entry_is_found_by_the_earlier_model() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)], embedding={"model": "local"})
        memory = make_memory(system, uid)
        first = write(system, uid, memory, "my cat sleeps all day")
        wait_for(lambda: vectors(system, uid) == 1, "it has its vector")
        system.workers[-1].stop()
        system.start_worker(embedding={"model": "wordllama"})
        assert not call(system, uid, "knowledge.search", {"query": "a sleepy cat"})["degraded"]

        again = write(system, uid, memory, "the kitten is always asleep", duplicate_threshold=0.4)

        assert (again["action"], again["id"]) == ("skipped", first["id"])


def test_entries_get_their_vectors_after_the_embedder_returns() -> None:
    uid = make_uid()
    with embedding_server() as server, TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)], embedding=options(server))
        server.instead = [(503, b"")] * 1000
        memory = make_memory(system, uid)
        told = [
            write(system, uid, memory, text)["action"] for text in (*FACTS, FACTS[0].upper(), ALIKE)
        ]
        found = call(system, uid, "knowledge.search", {"query": "coffee"})
        server.instead = []

        assert told == ["created"] * 3 + ["skipped", "created"]
        assert found["degraded"] and [one["content"] for one in found["results"]] == ["coffee mug"]
        wait_for(lambda: vectors(system, uid) == 4, "all have vectors")


def test_a_merged_entry_has_its_vector_before_the_answer() -> None:
    uid = make_uid()
    with embedding_server() as server, TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)], embedding=options(server))
        memory = make_memory(system, uid)
        first = write(system, uid, memory, FACTS[0])
        server.delay_s = 0.2
        merged = write(system, uid, memory, ALIKE, duplicate_threshold=1.1, update_threshold=0.3)
        found = call(system, uid, "knowledge.search", {"query": "coffee"})

        assert (merged["action"], merged["id"]) == ("updated", first["id"])
        assert not found["degraded"] and vectors(system, uid) == 1
        assert server.asked.count([f"{FACTS[0]}\n{ALIKE}"]) == 1


def test_a_block_merges_an_entry_with_its_vector() -> None:
    uid = make_uid()
    args = {"memory_id": "instances/${pipeline_uid}/memories", "memory": "notes"}
    args |= {"duplicate_threshold": 1.1, "update_threshold": 0.3}
    bundle = make_bundle(uid, make_agent("keep", "memory_entry_write", args, senders="User"))
    with embedding_server() as server, TestSystem() as system:
        system.start_worker(bundles=[bundle], embedding=options(server))
        memory = str(system.client.answer(uid, FACTS[0])["memory_id"])
        wait_for(lambda: vectors(system, uid) == 1, "it has its vector")

        system.client.enter(uid, ALIKE)
        (content,) = wait_for(lambda: find_merged(system, uid, memory), "it is merged")

        assert content == f"{FACTS[0]}\n{ALIKE}" and vectors(system, uid) == 1
        assert server.asked.count([content]) == 1


def find_merged(system: TestSystem, uid: str, memory: str) -> list[str]:
    """Return the texts of entries with several lines."""
    entries = call(system, uid, "entries.list", {"memory_id": memory})["items"]
    return [one["content"] for one in entries if "\n" in one["content"]]


def test_messages_go_on_while_a_call_waits_for_its_vector() -> None:
    uid = make_uid()
    with embedding_server() as server, TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)], embedding=options(server))
        memory = make_memory(system, uid)
        write(system, uid, memory, FACTS[0])
        server.delay_s = 40.0
        began = time.monotonic()
        slow = make_call(uid, "entries.create", {"memory_id": memory, "content": FACTS[1]})
        entry = system.client.enter(uid, "/write quick")
        (answer,) = call_all(system, slow)
        took_s = time.monotonic() - began
        server.delay_s = 0.0

        assert entry and answer["output"]["action"] == "created" and took_s < 35
        assert "quick" in system.contents(uid)


def test_a_named_memory_needs_no_store_in_the_bundle() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid, make_agent("adder", "add_1"))])
        memory = make_memory(system, uid)
        first = call(
            system, uid, "entries.create", {"memory_id": memory, "content": "tea"}, producer_id="k1"
        )
        worker.kill()
        system.start_worker()
        again = call(
            system, uid, "entries.create", {"memory_id": memory, "content": "tea"}, producer_id="k1"
        )

        assert first == again and system.store_file(uid).exists()
        assert [
            one["content"]
            for one in call(system, uid, "entries.list", {"memory_id": memory})["items"]
        ] == ["tea"]


def test_calls_and_blocks_write_entries_alike() -> None:
    uid = make_uid()
    bundle = make_bundle(
        uid,
        make_agent(
            "keep",
            "memory_entry_write",
            {"memory_id": "instances/${pipeline_uid}/memories", "memory": "notes"},
            senders="User",
        ),
    )
    with TestSystem() as system:
        system.start_worker(bundles=[bundle])
        memory = make_memory(system, uid)
        system.client.enter_together(uid, ["the same"] * 60)
        told = call_all(
            system,
            *[
                make_call(uid, "entries.create", {"memory_id": memory, "content": "The same."})
                for _ in range(60)
            ],
        )
        system.client.await_quiet(uid)

        (entry,) = call(system, uid, "entries.list", {"memory_id": memory})["items"]
        assert entry["confirmations"] == 119 and {one["output"]["id"] for one in told} == {
            entry["id"]
        }


def test_a_merge_is_undone_under_a_bundle_with_another_store() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(
            bundles=[make_bundle(uid, *make_commands("instances/${pipeline_uid}/others"))]
        )
        home, memory = f"instances/{uid}/memories", make_memory(system, uid)
        entry = write(system, uid, memory, "tea")
        write(system, uid, memory, "coffee", update_threshold=0)
        (record,) = call(system, uid, "records.list", {"kind": "entry"}, store=home)["items"]

        call(system, uid, "records.restore", {"guid": record["guid"], "number": 1}, store=home)

        assert (
            call(system, uid, "entries.get", {"id": entry["id"]})["content"]
            == "tea"
            != record["content"]
        )
        assert call(system, uid, "records.list")["total"] == 0
        assert (
            "names no store"
            in refused(system, uid, "records.list", store="instances/other/memories")[1]
        )


def test_a_block_writes_its_entry_even_without_retries() -> None:
    uid = make_uid()
    bundle = make_bundle(
        uid,
        make_agent(
            "keep",
            "memory_entry_write",
            {"memory_id": "instances/${pipeline_uid}/memories", "memory": "notes"},
            senders="User",
        ),
    )
    with embedding_server() as server, TestSystem() as system:
        system.start_worker(bundles=[bundle], embedding=options(server), limits={"retries": 1})
        memory = str(system.client.answer(uid, FACTS[0])["memory_id"])
        wait_for(lambda: vectors(system, uid) == 1, "it has its vector")
        server.delay_s = 0.4
        system.client.enter(uid, FACTS[1])

        wait_for(
            lambda: (
                call(system, uid, "entries.list", {"memory_id": memory})["total"] == 2
                or system.dead_letters(uid)
            ),
            "it is written",
            20,
        )
        assert not system.dead_letters(uid)

"""Vectors are computed in the background, without delaying other work, and across crashes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from memrelay.memory.transfer.export import export_lines
from tests.memory.builders import MEMORY_ID, NOW, make_store, perform
from tests.support.bundles import make_bundle, make_commands, make_memory, make_relay, make_uid
from tests.support.calls import call
from tests.support.embedding_server import KEY, EmbeddingServer, embedding_server
from tests.support.locks import locked
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.worker_reports import await_report, type_command


def make_embedding_bundle(uid: str, **keys: Any) -> dict[str, Any]:
    """Return a bundle with the five commands and a semantic search."""
    mode = keys.pop("mode", "semantic")
    return make_bundle(
        uid,
        *make_commands(),
        make_relay("mean", r"^/mean\s+(.*)"),
        make_memory("search", alias="memory_mean", senders="dispatch_mean", mode=mode),
        **keys,
    )


def options(server: EmbeddingServer, **others: Any) -> dict[str, Any]:
    return {
        "model": "endpoint",
        "url": server.url,
        "name": "letters",
        "key": KEY,
        "private": True,
    } | others


def searched(system: TestSystem, uid: str, query: str) -> list[str]:
    """Search by the operation, which is semantic under every bundle."""
    found = call(system, uid, "records.search", {"query": query, "mode": "semantic"})
    return [hit["record"]["content"] for hit in found["items"]]


@contextmanager
def embedding_system(uid: str, **config: Any) -> Iterator[tuple[TestSystem, EmbeddingServer]]:
    """Start a worker for a bundle, with an embedding endpoint that counts letters."""
    with embedding_server() as server, TestSystem() as system:
        system.start_stepping_worker(
            bundles=[make_embedding_bundle(uid)], embedding=options(server), **config
        )
        yield system, server


def vectors(system: TestSystem, uid: str) -> int:
    (count,) = system.rows(
        uid, "SELECT (SELECT count(*) FROM vectors_0) + (SELECT count(*) FROM vectors_1)"
    )[0]
    return int(count)


def await_vectors(system: TestSystem, uid: str, count: int) -> None:
    wait_for(
        lambda: system.store_file(uid).exists() and vectors(system, uid) == count,
        f"{count} vectors are there",
    )


def test_writes_edits_and_deletions_update_vectors() -> None:
    uid = make_uid()
    with embedding_system(uid) as (system, server):
        for text in ("tea", "coffee"):
            system.client.answer(uid, f"/write {text}")
        await_vectors(system, uid, 2)

        (first,) = system.rows(uid, "SELECT guid FROM records WHERE row = 1")[0]
        system.client.answer(uid, f"/delete {first}")

        await_vectors(system, uid, 1)
        assert sorted(text for texts in server.asked[1:] for text in texts) == ["coffee", "tea"]


def test_an_empty_store_with_new_vectors_needs_no_reindex() -> None:
    uid = make_uid()
    with embedding_system(uid) as (system, _):
        system.client.answer(uid, "/delete nobody")
        wait_for(lambda: system.rows(uid, "SELECT 1 FROM vector_sets"), "its vectors begin")

        system.client.answer(uid, "/write tea")

        await_vectors(system, uid, 1)
        assert "vectors_paused" not in system.workers[0].output


def test_an_unwanted_store_gets_no_vectors() -> None:
    wanted, unwanted = make_uid(), make_uid()
    with embedding_system(wanted) as (system, server):
        system.deploy(make_bundle(unwanted))
        system.client.answer(unwanted, "/write secret")
        system.client.answer(wanted, "/write tea")

        await_vectors(system, wanted, 1)

        assert vectors(system, unwanted) == 0
        assert not any("secret" in text for texts in server.asked for text in texts)


def test_earlier_records_get_vectors() -> None:
    uid = make_uid()
    with embedding_server() as server, TestSystem() as system:
        before = system.start_worker(bundles=[make_bundle(uid)], embedding=options(server))
        system.client.enter_together(uid, [f"/write {number}" for number in range(300)])
        system.client.await_quiet(uid)
        before.stop()

        system.start_worker(bundles=[make_embedding_bundle(uid)], embedding=options(server))

        await_vectors(system, uid, 300)


def test_a_store_keeps_its_vectors_under_another_bundle() -> None:
    uid = make_uid()
    with embedding_system(uid) as (system, server):
        system.client.answer(uid, "/write aaa")
        await_vectors(system, uid, 1)
        system.workers[-1].stop()
        system.deploy(make_bundle(uid), announced=False)
        system.start_worker(embedding=options(server))

        system.client.answer(uid, "/write bbb")

        await_vectors(system, uid, 2)
        assert searched(system, uid, "bb") == ["bbb"]


@pytest.mark.slow
def test_a_reindex_covers_a_store_whose_bundle_uses_words() -> None:
    uid = make_uid()
    with embedding_system(uid) as (system, _):
        system.client.answer(uid, "/write tea")
        await_vectors(system, uid, 1)
        system.workers[-1].stop()
        system.deploy(make_bundle(uid), announced=False)
        system.start_worker(embedding={"model": "wordllama"})

        type_command(system, "reindex", uid)

        wait_for(
            lambda: set_of(system, uid) == [("wordllama-l2-supercat", 1)], "the new vectors serve"
        )


def test_imported_entries_get_vectors(tmp_path: Path) -> None:
    uid, other = make_uid(), make_store(tmp_path)
    with other.transaction() as tx:
        memory = perform(tx, "memories.create", name="notes").id
        for fact in ("aaa", "bbb"):
            perform(tx, "entries.create", memory_id=memory, content=fact)
    other.close()
    exported = export_lines(Path(other.path), MEMORY_ID, NOW)
    lines = [msgspec.json.encode(line).decode() for line in exported]
    with embedding_server() as server, TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)], embedding=options(server))

        call(system, uid, "records.import", {"lines": lines})

        await_vectors(system, uid, 2)
        assert not call(system, uid, "knowledge.search", {"query": "aa"})["degraded"]


def test_a_reindex_creates_no_store() -> None:
    uid = make_uid()
    with embedding_system(uid) as (system, _):
        type_command(system, "reindex", uid)
        wait_for(lambda: not system.client.redis.exists("memrelay:remake"), "it has begun")

        assert not system.store_file(uid).exists()


@pytest.mark.slow
def test_writes_do_not_wait_for_a_hanging_endpoint() -> None:
    uid = make_uid()
    with embedding_system(uid) as (system, server):
        server.open.clear()
        system.client.answer(uid, "/write first")
        await_report(
            system, uid, lambda report: report["vectors_todo"] == 1, "its vector is awaited"
        )

        system.client.enter_together(uid, [f"/write {number}" for number in range(500)])
        system.client.await_quiet(uid)

        assert vectors(system, uid) == 0
        server.open.set()
        await_vectors(system, uid, 501)


def contents(answer: Any) -> list[str]:
    return [record["content"] for record in answer]


def test_a_query_waits_for_the_endpoint_and_delays_no_message() -> None:
    uid = make_uid()
    with embedding_system(uid) as (system, server):
        for text in ("aaa", "bbb"):
            system.client.answer(uid, f"/write {text}")
        await_vectors(system, uid, 2)
        server.open.clear()

        question = system.client.enter(uid, "/mean aa")
        system.client.answer(uid, "/write ccc")
        assert answer_to(system, uid, question) is None
        server.open.set()
        system.client.await_quiet(uid)
        answer = wait_for(lambda: answer_to(system, uid, question), "the answer")

        assert contents(answer) == ["aaa"]
        assert server.asked.count(["aa"]) == 1
        assert system.dead_letters(uid) == []


def answer_to(system: TestSystem, uid: str, ident: str) -> Any:
    said = [
        said
        for said in system.client.log(uid)
        if said.input == ident and said.sender == "memory_mean"
    ]
    return orjson.loads(said[-1].text) if said else None


@pytest.mark.slow
def test_a_query_falls_back_to_words_if_the_endpoint_hangs() -> None:
    uid = make_uid()
    with embedding_server() as server, TestSystem() as system:
        system.start_worker(
            bundles=[make_embedding_bundle(uid, mode="hybrid")], embedding=options(server)
        )
        system.client.answer(uid, "/write tea is hot")
        await_vectors(system, uid, 1)
        server.open.clear()

        questions = [
            system.client.enter(uid, f"/mean {word} tea")
            for word in ("green", "black", "white", "cold")
        ]
        answers = [wait_for(lambda: answer_to(system, uid, one), "the answer") for one in questions]  # noqa: B023

        assert [contents(answer) for answer in answers] == [["tea is hot"]] * 4
        assert system.dead_letters(uid) == []
        server.open.set()


def test_a_query_without_an_endpoint_is_answered_with_the_reason() -> None:
    uid = make_uid()
    with embedding_system(uid) as (system, server):
        system.client.answer(uid, "/write aaa")
        await_vectors(system, uid, 1)
        server.instead = [(401, b"")]

        question = system.client.enter(uid, "/mean aa")
        answer = wait_for(lambda: answer_to(system, uid, question), "the answer")

        assert "401" in answer["error"]


@pytest.mark.slow
def test_the_built_in_model_adds_results_to_the_words() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(
            bundles=[make_embedding_bundle(uid, mode="hybrid")], embedding={"model": "local"}
        )
        for text in ("my cat sleeps all day", "the tea is cold"):
            system.client.answer(uid, f"/write {text}")
        await_vectors(system, uid, 2)

        question = system.client.enter(uid, "/mean the kitten is always asleep")
        answer = wait_for(lambda: answer_to(system, uid, question), "the answer")

        assert contents(answer) == ["my cat sleeps all day"]


@pytest.mark.slow
def test_an_embedder_fault_is_reported_until_it_ends() -> None:
    uid = make_uid()
    with embedding_system(uid) as (system, server):
        server.instead = [(503, b"")] * 2
        system.client.answer(uid, "/write tea")

        await_report(
            system, uid, lambda report: "503" in report["vectors_fault"], "the fault is reported"
        )

        await_vectors(system, uid, 1)
        await_report(system, uid, lambda report: not report["vectors_fault"], "it has passed")


def test_an_embedder_can_set_the_pause() -> None:
    uid = make_uid()
    with embedding_system(uid) as (system, server):
        server.instead, server.retry_after = [(429, b"")], "3"

        system.client.answer(uid, "/write tea")

        await_vectors(system, uid, 1)
        first, second = server.asked_at[:2]
        assert second - first >= 3


@pytest.mark.slow
def test_a_locked_store_delays_no_other_vectors() -> None:
    uid, other = make_uid(), "instances/${pipeline_uid}/others"
    with embedding_server() as server, TestSystem() as system:
        bundle = make_embedding_bundle(uid)
        bundle["agents"] += [
            make_relay("put", r"^/put\s+(.*)"),
            make_memory("write", memory_id=other, alias="put", senders="dispatch_put"),
            make_relay("ask", r"^/ask\s+(.*)"),
            make_memory(
                "search", memory_id=other, alias="ask", senders="dispatch_ask", mode="semantic"
            ),
        ]
        system.start_stepping_worker(bundles=[bundle], embedding=options(server))
        server.open.clear()
        system.client.answer(uid, "/write tea")
        with locked(system.store_file(uid)):
            server.open.set()
            await_report(
                system, uid, lambda report: bool(report["vectors_fault"]), "the lock is in the way"
            )

            system.client.answer(uid, "/put milk")

            wait_for(
                lambda: system.rows(uid, "SELECT count(*) FROM vectors_0", "others") == [(1,)],
                "it has its vector",
            )
            assert vectors(system, uid) == 0
        await_vectors(system, uid, 1)


@pytest.mark.slow
def test_a_failing_text_does_not_block_others() -> None:
    uid = make_uid()
    with embedding_system(uid) as (system, server):
        server.poison = "poison"

        system.client.enter_together(
            uid, [f"/write {text}" for text in ("aaa", "poison", "bbb", "ccc")]
        )

        await_vectors(system, uid, 4)  # one of them is empty
        await_report(
            system,
            uid,
            lambda report: not report["vectors_fault"] and not report["vectors_todo"],
            "the input is empty",
        )
        empty = system.rows(
            uid, "SELECT content FROM records JOIN vectors_0 USING (row) WHERE length(vector) = 0"
        )
        assert empty == [("poison",)]
        assert "text_without_vector" in system.workers[0].output


@pytest.mark.slow
@pytest.mark.parametrize("step", ["vectors made", "vectors kept"])
def test_a_kill_while_embedding_leaves_nothing_behind(step: str) -> None:
    uid = make_uid()
    with embedding_system(uid, die_on=step) as (system, server):
        system.client.enter_together(uid, [f"/write {number}" for number in range(50)])
        wait_for(lambda: not system.workers[-1].lives, "the worker has ended")

        system.start_worker(embedding=options(server))
        system.client.await_quiet(uid)

        await_vectors(system, uid, 50)
        assert len(system.contents(uid)) == 50


def test_without_an_embedder_no_vectors_are_made() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_embedding_bundle(uid)], embedding={"model": "none"})

        system.client.answer(uid, "/write tea")

        assert system.rows(uid, "SELECT * FROM vector_sets") == []


def set_of(system: TestSystem, uid: str) -> list[tuple[str, int]]:
    return [
        (name.partition("/")[0], serves)
        for name, serves in system.rows(uid, "SELECT fingerprint, serves FROM vector_sets")
    ]


def test_a_reindex_replaces_all_vectors_of_another_model() -> None:
    uid = make_uid()
    with embedding_system(uid) as (system, _):
        system.client.enter_together(uid, [f"/write {number}" for number in range(30)])
        await_vectors(system, uid, 30)
        system.workers[-1].stop()

        system.start_worker(embedding={"model": "wordllama"})
        system.client.answer(uid, "/write later")
        await_report(
            system,
            uid,
            lambda report: "memrelay reindex" in report["vectors_fault"],
            "the other embedder is reported",
        )
        assert (vectors(system, uid), set_of(system, uid)) == (30, [("letters", 1)])

        typed = type_command(system, "reindex", uid)

        assert "recomputing the vectors" in typed.stdout
        wait_for(
            lambda: set_of(system, uid) == [("wordllama-l2-supercat", 1)], "the new vectors serve"
        )
        await_vectors(system, uid, 31)
        await_report(
            system,
            uid,
            lambda report: not report["vectors_fault"] and not report["vectors_todo"],
            "the input is empty",
        )


def test_a_reindex_discards_cached_query_vectors() -> None:
    uid = make_uid()
    with embedding_system(uid) as (system, server):
        system.client.enter_together(uid, ["/write aaa", "/write zzz"])
        await_vectors(system, uid, 2)
        assert contents(asked(system, uid, "/mean aa")) == ["aaa"]
        server.letters = server.letters[::-1]  # another model with the same name

        type_command(system, "reindex", uid)
        wait_for(
            lambda: system.rows(uid, "SELECT place, serves FROM vector_sets") == [(1, 1)],
            "the new vectors serve",
        )

        assert contents(asked(system, uid, "/mean aa")) == ["aaa"]


def asked(system: TestSystem, uid: str, text: str) -> Any:
    question = system.client.enter(uid, text)
    return wait_for(lambda: answer_to(system, uid, question), "the answer")


@pytest.mark.slow
@pytest.mark.parametrize("step", ["vectors begun anew", "vectors made", "vectors kept"])
def test_an_interrupted_reindex_continues(step: str) -> None:
    uid = make_uid()
    with embedding_system(uid) as (system, _):
        system.client.enter_together(uid, [f"/write {number}" for number in range(30)])
        await_vectors(system, uid, 30)
        system.workers[-1].stop()
        system.start_stepping_worker(embedding={"model": "wordllama"}, die_on=step)

        type_command(system, "reindex", uid)
        wait_for(lambda: not system.workers[-1].lives, "the worker has ended")
        system.start_worker(embedding={"model": "wordllama"})

        wait_for(
            lambda: set_of(system, uid) == [("wordllama-l2-supercat", 1)], "the new vectors serve"
        )
        await_vectors(system, uid, 30)


@pytest.mark.slow
def test_a_requested_reindex_waits_for_a_worker() -> None:
    uid = make_uid()
    with embedding_system(uid) as (system, _):
        system.client.answer(uid, "/write tea")
        await_vectors(system, uid, 1)
        system.workers[-1].stop()

        typed = type_command(system, "reindex", uid, "--json")
        system.start_worker(embedding={"model": "wordllama"})

        assert '"begun":false' in typed.stdout.replace(" ", "")
        wait_for(
            lambda: set_of(system, uid) == [("wordllama-l2-supercat", 1)], "the new vectors serve"
        )


NEARLY_THE_SAME = "the kitten is always asleep"
MINILM, BGE = "all-MiniLM-L6-v2-int8", "bge-small-en-v1.5-int8"


def start_with_old_vectors(system: TestSystem, uid: str, count: int) -> None:
    """Write records under MiniLM, and stop the worker."""
    system.start_worker(bundles=[make_embedding_bundle(uid)], embedding={"model": "local"})
    system.client.answer(uid, "/write my cat sleeps all day")
    system.client.enter_together(uid, [f"/write number {number}" for number in range(count - 1)])
    await_vectors(system, uid, count)
    system.workers[-1].stop()


def test_auto_replaces_the_vectors_of_minilm_in_the_background() -> None:
    uid = make_uid()
    with TestSystem() as system:
        start_with_old_vectors(system, uid, 20)

        system.start_worker(embedding={"model": "auto"})

        wait_for(lambda: set_of(system, uid) == [(BGE, 1)], "the new vectors serve")
        await_vectors(system, uid, 20)
        assert (
            contents(asked(system, uid, f"/mean {NEARLY_THE_SAME}"))[0] == "my cat sleeps all day"
        )
        assert "vectors_paused" not in system.workers[-1].output


@pytest.mark.slow
def test_old_vectors_answer_while_auto_replaces_them() -> None:
    """Also for a text that is written meanwhile."""
    uid = make_uid()
    with TestSystem() as system:
        start_with_old_vectors(system, uid, 600)
        system.start_worker(embedding={"model": "auto"})
        both = [(MINILM, 1), (BGE, 0)]
        wait_for(lambda: set_of(system, uid) == both, "the new vectors are begun")

        system.client.answer(uid, "/write the tea is cold")
        wait_for(
            lambda: system.rows(uid, "SELECT count(*) FROM vectors_0") == [(601,)],
            "the new text has an old vector",
        )
        new = contents(asked(system, uid, "/mean a drink in a cup"))
        found = contents(asked(system, uid, f"/mean {NEARLY_THE_SAME}"))

        assert set_of(system, uid) == both
        assert (new[0], found[0]) == ("the tea is cold", "my cat sleeps all day")
        wait_for(lambda: set_of(system, uid) == [(BGE, 1)], "the new vectors serve")
        await_vectors(system, uid, 601)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["vectors begun anew", "vectors made", "vectors kept"])
def test_an_interrupted_replacement_by_auto_continues(step: str) -> None:
    uid = make_uid()
    with TestSystem() as system:
        start_with_old_vectors(system, uid, 30)
        system.start_stepping_worker(embedding={"model": "auto"}, die_on=step, ready=False)
        wait_for(lambda: not system.workers[-1].lives, "the worker has ended")
        assert set_of(system, uid) == [(MINILM, 1), (BGE, 0)]

        system.start_worker(embedding={"model": "auto"})

        wait_for(lambda: set_of(system, uid) == [(BGE, 1)], "the new vectors serve")
        await_vectors(system, uid, 30)


@pytest.mark.slow
def test_a_return_to_minilm_in_the_middle_keeps_its_vectors() -> None:
    uid = make_uid()
    with TestSystem() as system:
        start_with_old_vectors(system, uid, 30)
        system.start_stepping_worker(
            embedding={"model": "auto"}, die_on="vectors kept", ready=False
        )
        wait_for(lambda: not system.workers[-1].lives, "the worker has ended")

        system.start_worker(embedding={"model": "local"})

        wait_for(lambda: set_of(system, uid) == [(MINILM, 1)], "the old vectors serve alone")
        await_vectors(system, uid, 30)

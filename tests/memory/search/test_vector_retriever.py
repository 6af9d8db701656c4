"""Search by meaning: its results, its view of a transaction, and its errors without vectors."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused, VectorPending
from memrelay.memory.records.deletion import DeleteInput, delete
from memrelay.memory.search.embedding.backfill import start_new_set
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.pool import Pool, SemanticResources
from memrelay.memory.search.search import Mode, SearchInput, search, search_explained
from tests.memory.builders import MEMORY_ID, append_to, make_store, perform, write_all
from tests.memory.search.embedding.embedders import (
    embed_all,
    lazy_endpoint,
    stopped_clock,
    wait_for_answer,
)
from tests.support.embedding_server import embedding_server

OPTIONS = EmbeddingOptions("local")
TEXTS = [
    "we meet at three in the afternoon",
    "my cat sleeps all day",
    "the tea is cold",
    "he drove to the stadium",
]


@pytest.fixture(scope="module")
def lazy() -> LazyEmbedder:
    loaded = LazyEmbedder(OPTIONS)
    loaded.get()
    return loaded


def open_store(root: Path, lazy: LazyEmbedder, budget: int = 1 << 20) -> Store:
    return Store(
        MEMORY_ID,
        store_path(root, MEMORY_ID),
        meaning=SemanticResources(QuestionEmbedder(lazy, stopped_clock), Pool(budget)),
    )


@pytest.fixture
def store(tmp_path: Path, lazy: LazyEmbedder) -> Iterator[Store]:
    store = open_store(tmp_path, lazy)
    yield store
    store.close()


def find(tx: Store, query: str, mode: Mode = "semantic", **wanted: Any) -> list[str]:
    return [
        record.content for record in search(tx, SearchInput(query, 1 << 20, mode=mode, **wanted))
    ]


def found(store: Store, query: str, mode: Mode = "semantic", **wanted: Any) -> list[str]:
    with store.transaction() as tx:
        return find(tx, query, mode, **wanted)


def test_a_record_is_found_by_meaning_without_a_shared_word(
    store: Store, lazy: LazyEmbedder
) -> None:
    write_all(store, *TEXTS)
    embed_all(store, lazy.get())

    assert found(store, "appointment at 3 o'clock")[:1] == TEXTS[:1]
    assert found(store, "a kitten takes naps")[:1] == TEXTS[1:2]


def test_nonsense_finds_nothing(store: Store, lazy: LazyEmbedder) -> None:
    write_all(store, *TEXTS)
    embed_all(store, lazy.get())

    assert found(store, "qwrtz plmokn 77812") == []


def test_hybrid_search_finds_by_words_and_by_meaning(store: Store, lazy: LazyEmbedder) -> None:
    write_all(store, *TEXTS, "invoice XK-1138 is unpaid")
    embed_all(store, lazy.get())

    with store.transaction() as tx:
        by_word = search(tx, SearchInput("XK-1138", 1 << 20, mode="hybrid"))
        by_meaning = search(tx, SearchInput("appointment at 3 o'clock", 1 << 20, mode="hybrid"))

    assert by_word[0].content == "invoice XK-1138 is unpaid"
    assert by_meaning[0].content == TEXTS[0]
    assert all(0 < record.score <= 1 for record in by_word + by_meaning)


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_meaning_alone_needs_the_score_of_the_embedder(
    store: Store, lazy: LazyEmbedder, mode: Mode
) -> None:
    least = lazy.get().calibration.least_among(len(TEXTS))
    write_all(store, *TEXTS)
    embed_all(store, lazy.get())

    with store.transaction() as tx:
        records, explanation = search_explained(tx, SearchInput("kittens nap", 1 << 20, mode=mode))

    assert explanation.least_cosine == pytest.approx(least)
    assert (
        all(
            arm.score >= least
            for hit in explanation.hits
            for arm in hit.arms
            if arm.arm == "vector"
        )
        and records
    )


def test_filters_apply_before_vectors_are_compared(store: Store, lazy: LazyEmbedder) -> None:
    write_all(store, *TEXTS)
    write_all(store, "we meet at four in the afternoon", kind="plan")
    embed_all(store, lazy.get())

    assert found(store, "appointment at 3 o'clock", filters={"kind": "plan"}, limit=1) == [
        "we meet at four in the afternoon"
    ]
    assert found(store, "kind:plan appointment at 3 o'clock", limit=1) == [
        "we meet at four in the afternoon"
    ]


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_filters_that_exclude_the_only_match_are_the_reason(
    store: Store, lazy: LazyEmbedder, mode: Mode
) -> None:
    write_all(store, *TEXTS)
    write_all(store, "invoice XK-1138 is unpaid", kind="plan")
    embed_all(store, lazy.get())

    with store.transaction() as tx:
        _, explanation = search_explained(
            tx, SearchInput("the kitten is always asleep", 1 << 20, {"kind": "plan"}, mode=mode)
        )

    assert explanation.nothing is not None
    assert (explanation.nothing.reason, explanation.nothing.detail) == (
        "filtered",
        "no record passes the filters; there are 1 that would be found",
    )


def test_a_search_sees_changes_of_its_transaction_and_their_rollback(
    store: Store, lazy: LazyEmbedder
) -> None:
    first, *_ = write_all(store, *TEXTS)
    embed_all(store, lazy.get())
    assert found(store, "appointment at 3 o'clock")[:1] == TEXTS[:1]

    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        delete(tx, DeleteInput(guid=first))
        assert TEXTS[0] not in find(tx, "appointment at 3 o'clock")
        raise ZeroDivisionError
    assert found(store, "appointment at 3 o'clock")[:1] == TEXTS[:1]

    with store.transaction() as tx:
        append_to(tx, "or rather an hour later", guid=first)
        assert find(tx, "appointment at 3 o'clock") == []  # until it has a new vector
    embed_all(store, lazy.get())
    assert "an hour later" in found(store, "appointment at 3 o'clock")[0]


def test_a_rolled_back_deletion_is_found_without_a_search_in_between(
    store: Store, lazy: LazyEmbedder
) -> None:
    first, *_ = write_all(store, *TEXTS)
    embed_all(store, lazy.get())
    found(store, "appointment at 3 o'clock")

    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        delete(tx, DeleteInput(guid=first))
        raise ZeroDivisionError

    assert found(store, "appointment at 3 o'clock")[:1] == TEXTS[:1]


def test_a_record_without_a_vector_is_found_by_its_words(store: Store, lazy: LazyEmbedder) -> None:
    write_all(store, *TEXTS)
    embed_all(store, lazy.get())

    write_all(store, "the appointment is on Monday")

    assert "the appointment is on Monday" in found(store, "appointment", "hybrid")
    assert "the appointment is on Monday" not in found(store, "appointment")


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_an_explanation_counts_records_without_a_vector(
    store: Store, lazy: LazyEmbedder, mode: Mode
) -> None:
    write_all(store, TEXTS[1])
    embed_all(store, lazy.get())
    with store.transaction() as tx:
        _, before = search_explained(
            tx, SearchInput("appointment at 3 o'clock", 1 << 20, mode=mode)
        )
    write_all(store, TEXTS[0], TEXTS[2])

    with store.transaction() as tx:
        found, explanation = search_explained(
            tx, SearchInput("appointment at 3 o'clock", 1 << 20, mode=mode)
        )

    assert found == [] and before.notes == ()
    assert explanation.notes[0].startswith("2 of 3 records have no vector to compare")


def test_vectors_beyond_the_memory_budget_are_read_from_the_file(
    tmp_path: Path, lazy: LazyEmbedder
) -> None:
    store = open_store(tmp_path, lazy, budget=1000)
    write_all(store, *TEXTS)
    embed_all(store, lazy.get())

    assert found(store, "appointment at 3 o'clock")[:1] == TEXTS[:1]
    assert found(store, "appointment at 3 o'clock", filters={"kind": "plan"}) == []
    store.close()


def test_a_turn_is_found_by_the_meaning_of_its_neighbors(store: Store, lazy: LazyEmbedder) -> None:
    talk = [
        "Shall we go to the concert on Friday?",
        "Yes, let us go to the concert.",
        "Great!",
        "How is your cat?",
    ]
    _, _, neighbor, _ = write_all(store, *talk, thread="a", source="Ada")
    (elsewhere,) = write_all(store, "Great!", thread="b", source="Ada")
    embed_all(store, lazy.get())

    with store.transaction() as tx:
        scores = {
            record.guid: record.score
            for record in search(tx, SearchInput("the concert", 1 << 20, mode="hybrid"))
        }

    assert scores[neighbor] > scores.get(elsewhere, 0)


def test_without_vectors_hybrid_uses_words_and_semantic_reports_the_reason(
    tmp_path: Path, store: Store
) -> None:
    write_all(store, *TEXTS)
    plain = make_store(tmp_path / "other")
    write_all(plain, *TEXTS)

    for one, reason in ((store, "no vectors yet"), (plain, "there is no embedder")):
        assert found(one, "tea", "hybrid") == ["the tea is cold"]
        with pytest.raises(Refused, match=reason):
            found(one, "tea")
    plain.close()


def test_a_search_of_an_empty_store_finds_nothing_without_an_error(store: Store) -> None:
    assert found(store, "tea") == found(store, "tea", "hybrid") == []
    for mode in ("semantic", "hybrid"):
        hits = perform(store, "records.search", query="tea", mode=mode, explain=True)
        assert (hits.items, hits.explanation.nothing.reason) == ((), "no records")
        assert hits.explanation.notes == ()

    with store.transaction() as tx:
        perform(tx, "memories.create", name="empty")
    known = perform(store, "knowledge.search", query="tea")

    assert (known.results, known.degraded, known.reason) == ((), False, "")


def test_old_vectors_serve_until_the_new_set_is_complete(
    tmp_path: Path, lazy: LazyEmbedder
) -> None:
    store = open_store(tmp_path, lazy)
    write_all(store, *TEXTS)
    embed_all(store, lazy.get())
    store.close()
    other = LazyEmbedder(EmbeddingOptions("wordllama"))
    store = open_store(tmp_path, other)

    start_new_set(store, other.get())
    before = wait_for_answer(lambda: found(store, "the kitten is always asleep"))
    embed_all(store, other.get())
    after = wait_for_answer(lambda: found(store, "the kitten is always asleep"))

    assert before == after == TEXTS[1:2]
    assert [one.fingerprint for one in store.vectors.sets()] == [str(other.get().fingerprint)]
    store.close()


@pytest.mark.parametrize("status", [401, 503])
def test_old_vectors_of_the_built_in_model_serve_while_the_endpoint_is_down(
    tmp_path: Path, lazy: LazyEmbedder, status: int
) -> None:
    store = open_store(tmp_path, lazy)
    write_all(store, *TEXTS)
    embed_all(store, lazy.get())
    store.close()
    with embedding_server() as server:
        server.instead = [(status, b"")] * 10
        store = open_store(tmp_path, lazy_endpoint(server))

        answer = wait_for_answer(lambda: found(store, "the kitten is always asleep"))

        assert answer == TEXTS[1:2]
        store.close()


def test_a_search_does_not_wait_for_the_endpoint_inside_a_transaction(tmp_path: Path) -> None:
    with embedding_server() as server:
        lazy = lazy_endpoint(server)
        store = open_store(tmp_path, lazy)
        write_all(store, "aaa", "bbb")
        embed_all(store, lazy.get())
        server.delay_s = 0.2

        with pytest.raises(VectorPending) as awaited:
            found(store, "aa")
        answer = wait_for_answer(lambda: found(store, "aa"))

        assert awaited.value.after_s < 0.1
        assert answer == ["aaa"]
        assert server.asked.count(["aa"]) == 1
        store.close()


def test_hybrid_search_uses_words_if_the_endpoint_fails(tmp_path: Path) -> None:
    with embedding_server() as server:
        lazy = lazy_endpoint(server)
        store = open_store(tmp_path, lazy)
        write_all(store, "aaa", "bbb")
        embed_all(store, lazy.get())
        server.instead = [(500, b"")]

        assert wait_for_answer(lambda: found(store, "aaa", "hybrid")) == ["aaa"]
        server.instead = [(401, b"")]
        with pytest.raises(Refused, match="401"):
            wait_for_answer(lambda: found(store, "bbb"))
        store.close()

"""Searching by meaning: what it finds, what it sees of a transaction, and what it says where it
cannot."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.embedding.backfill import keep, make, next_task, remake
from memrelay.memory.embedding.embedder import EmbeddingOptions
from memrelay.memory.embedding.loading import LazyEmbedder
from memrelay.memory.embedding.questions import ANSWER_S, MOST_S, Questions
from memrelay.memory.errors import EmbeddingFault, EmbeddingLater, Refused, VectorAwaited
from memrelay.memory.memory_id import path_of
from memrelay.memory.operations.records_delete import DeleteInput, delete
from memrelay.memory.operations.records_search import Mode, SearchInput, search, search_explained
from memrelay.memory.search.pool import Meaning, Pool
from memrelay.memory.sqlite.store import Store
from tests.memory.builders import MEMORY_ID, append_to, make_store, perform, write_all
from tests.support.embedding_server import KEY, EmbeddingServer, embedding_server
from tests.support.waiting import wait_for

OPTIONS = EmbeddingOptions("local")
SAID = [
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


def stopped() -> float:
    """A clock that stands, so that a vector is awaited however slow the machine is."""
    return 1.0


def open_store(root: Path, lazy: LazyEmbedder, budget: int = 1 << 20) -> Store:
    return Store(
        MEMORY_ID, path_of(root, MEMORY_ID), meaning=Meaning(Questions(lazy, stopped), Pool(budget))
    )


@pytest.fixture
def store(tmp_path: Path, lazy: LazyEmbedder) -> Iterator[Store]:
    store = open_store(tmp_path, lazy)
    yield store
    store.close()


def embed(store: Store, lazy: LazyEmbedder) -> None:
    while (task := next_task(store, lazy.get(), True, 100)) is not None:
        if task.one is not None:
            keep(store, task.one, make(lazy.get(), task.texts))


def find(tx: Store, query: str, mode: Mode = "semantic", **wanted: Any) -> list[str]:
    return [
        record.content for record in search(tx, SearchInput(query, 1 << 20, mode=mode, **wanted))
    ]


def found(store: Store, query: str, mode: Mode = "semantic", **wanted: Any) -> list[str]:
    with store.transaction() as tx:
        return find(tx, query, mode, **wanted)


def test_what_is_meant_is_found_without_a_word_in_common(store: Store, lazy: LazyEmbedder) -> None:
    write_all(store, *SAID)
    embed(store, lazy)

    assert found(store, "appointment at 3 o'clock")[:1] == SAID[:1]
    assert found(store, "a kitten takes naps")[:1] == SAID[1:2]


def test_nonsense_finds_nothing(store: Store, lazy: LazyEmbedder) -> None:
    write_all(store, *SAID)
    embed(store, lazy)

    assert found(store, "qwrtz plmokn 77812") == []


def test_hybrid_finds_by_either_arm_and_scores_from_0_to_1(
    store: Store, lazy: LazyEmbedder
) -> None:
    write_all(store, *SAID, "invoice XK-1138 is unpaid")
    embed(store, lazy)

    with store.transaction() as tx:
        by_word = search(tx, SearchInput("XK-1138", 1 << 20, mode="hybrid"))
        by_meaning = search(tx, SearchInput("appointment at 3 o'clock", 1 << 20, mode="hybrid"))

    assert by_word[0].content == "invoice XK-1138 is unpaid"
    assert by_meaning[0].content == SAID[0]
    assert all(0 < record.score <= 1 for record in by_word + by_meaning)


@pytest.mark.parametrize(("mode", "least"), [("semantic", 0.4), ("hybrid", 0.42)])
def test_beside_words_a_record_that_has_none_of_them_must_mean_a_little_more(
    store: Store, lazy: LazyEmbedder, mode: Mode, least: float
) -> None:
    write_all(store, *SAID)
    embed(store, lazy)

    with store.transaction() as tx:
        records, told = search_explained(tx, SearchInput("kittens nap", 1 << 20, mode=mode))

    assert told.least_cosine == pytest.approx(least)
    assert (
        all(arm.score >= least for hit in told.hits for arm in hit.arms if arm.arm == "vector")
        and records
    )


def test_filters_hold_before_anything_is_compared(store: Store, lazy: LazyEmbedder) -> None:
    write_all(store, *SAID)
    write_all(store, "we meet at four in the afternoon", kind="plan")
    embed(store, lazy)

    assert found(store, "appointment at 3 o'clock", filters={"kind": "plan"}, limit=1) == [
        "we meet at four in the afternoon"
    ]
    assert found(store, "kind:plan appointment at 3 o'clock", limit=1) == [
        "we meet at four in the afternoon"
    ]


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_where_filters_keep_out_what_is_meant_that_is_the_reason(
    store: Store, lazy: LazyEmbedder, mode: Mode
) -> None:
    write_all(store, *SAID)
    write_all(store, "invoice XK-1138 is unpaid", kind="plan")
    embed(store, lazy)

    with store.transaction() as tx:
        _, told = search_explained(
            tx, SearchInput("the kitten is always asleep", 1 << 20, {"kind": "plan"}, mode=mode)
        )

    assert told.nothing is not None
    assert (told.nothing.reason, told.nothing.detail) == (
        "filtered",
        "no record passes the filters; there are 1 that would be found",
    )


def test_a_transaction_sees_its_own_changes_and_a_rollback_takes_them_back(
    store: Store, lazy: LazyEmbedder
) -> None:
    first, *_ = write_all(store, *SAID)
    embed(store, lazy)
    assert found(store, "appointment at 3 o'clock")[:1] == SAID[:1]

    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        delete(tx, DeleteInput(guid=first))
        assert SAID[0] not in find(tx, "appointment at 3 o'clock")
        raise ZeroDivisionError
    assert found(store, "appointment at 3 o'clock")[:1] == SAID[:1]

    with store.transaction() as tx:
        append_to(tx, "or rather an hour later", guid=first)
        assert find(tx, "appointment at 3 o'clock") == []  # until it has a vector again
    embed(store, lazy)
    assert "an hour later" in found(store, "appointment at 3 o'clock")[0]


def test_what_a_rollback_brought_back_is_found_though_nobody_searched_meanwhile(
    store: Store, lazy: LazyEmbedder
) -> None:
    first, *_ = write_all(store, *SAID)
    embed(store, lazy)
    found(store, "appointment at 3 o'clock")

    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        delete(tx, DeleteInput(guid=first))
        raise ZeroDivisionError

    assert found(store, "appointment at 3 o'clock")[:1] == SAID[:1]


def test_what_has_no_vector_yet_is_found_by_its_words(store: Store, lazy: LazyEmbedder) -> None:
    write_all(store, *SAID)
    embed(store, lazy)

    write_all(store, "the appointment is on Monday")

    assert "the appointment is on Monday" in found(store, "appointment", "hybrid")
    assert "the appointment is on Monday" not in found(store, "appointment")


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_an_explanation_tells_how_many_records_have_no_vector(
    store: Store, lazy: LazyEmbedder, mode: Mode
) -> None:
    write_all(store, SAID[1])
    embed(store, lazy)
    with store.transaction() as tx:
        _, before = search_explained(
            tx, SearchInput("appointment at 3 o'clock", 1 << 20, mode=mode)
        )
    write_all(store, SAID[0], SAID[2])

    with store.transaction() as tx:
        found, told = search_explained(
            tx, SearchInput("appointment at 3 o'clock", 1 << 20, mode=mode)
        )

    assert found == [] and before.notes == ()
    assert told.notes[0].startswith("2 of 3 records have no vector to compare")


def test_a_store_beyond_the_budget_is_read_from_its_file(
    tmp_path: Path, lazy: LazyEmbedder
) -> None:
    store = open_store(tmp_path, lazy, budget=1000)
    write_all(store, *SAID)
    embed(store, lazy)

    assert found(store, "appointment at 3 o'clock")[:1] == SAID[:1]
    assert found(store, "appointment at 3 o'clock", filters={"kind": "plan"}) == []
    store.close()


def test_a_turn_is_found_by_what_was_said_around_it(store: Store, lazy: LazyEmbedder) -> None:
    talk = [
        "Shall we go to the concert on Friday?",
        "Yes, let us go to the concert.",
        "Great!",
        "How is your cat?",
    ]
    _, _, beside, _ = write_all(store, *talk, thread="a", source="Ada")
    (elsewhere,) = write_all(store, "Great!", thread="b", source="Ada")
    embed(store, lazy)

    with store.transaction() as tx:
        scores = {
            record.guid: record.score
            for record in search(tx, SearchInput("the concert", 1 << 20, mode="hybrid"))
        }

    assert scores[beside] > scores.get(elsewhere, 0)


def test_without_vectors_hybrid_goes_by_words_and_semantic_says_why(
    tmp_path: Path, store: Store
) -> None:
    write_all(store, *SAID)
    plain = make_store(tmp_path / "other")
    write_all(plain, *SAID)

    for one, reason in ((store, "no vectors yet"), (plain, "there is no embedder")):
        assert found(one, "tea", "hybrid") == ["the tea is cold"]
        with pytest.raises(Refused, match=reason):
            found(one, "tea")
    plain.close()


def test_in_a_store_without_records_nothing_is_found_and_nothing_is_wrong(store: Store) -> None:
    assert found(store, "tea") == found(store, "tea", "hybrid") == []
    for mode in ("semantic", "hybrid"):
        hits = perform(store, "records.search", query="tea", mode=mode, explain=True)
        assert (hits.items, hits.explanation.nothing.reason) == ((), "no records")
        assert hits.explanation.notes == ()

    with store.transaction() as tx:
        perform(tx, "memories.create", name="empty")
    known = perform(store, "knowledge.search", query="tea")

    assert (known.results, known.degraded, known.reason) == ((), False, "")


def test_old_vectors_serve_until_those_of_another_embedder_are_whole(
    tmp_path: Path, lazy: LazyEmbedder
) -> None:
    store = open_store(tmp_path, lazy)
    write_all(store, *SAID)
    embed(store, lazy)
    store.close()
    other = LazyEmbedder(EmbeddingOptions("wordllama"))
    store = open_store(tmp_path, other)

    remake(store, other.get())
    before = settled(lambda: found(store, "the kitten is always asleep"))
    embed(store, other)
    after = settled(lambda: found(store, "the kitten is always asleep"))

    assert before == after == SAID[1:2]
    assert [one.fingerprint for one in store.vectors.sets()] == [str(other.get().fingerprint)]
    store.close()


@pytest.mark.parametrize("status", [401, 503])
def test_old_vectors_of_the_built_in_model_are_searched_while_an_endpoint_is_away(
    tmp_path: Path, lazy: LazyEmbedder, status: int
) -> None:
    store = open_store(tmp_path, lazy)
    write_all(store, *SAID)
    embed(store, lazy)
    store.close()
    with embedding_server() as server:
        server.instead = [(status, b"")] * 10
        store = open_store(tmp_path, letters(server))

        answer = settled(lambda: found(store, "the kitten is always asleep"))

        assert answer == SAID[1:2]
        store.close()


def settled(ask: Callable[[], list[str]]) -> list[str]:
    """What a search finds in the end whose question's vector is awaited."""

    def look() -> list[list[str]]:
        try:
            return [ask()]
        except VectorAwaited:
            return []

    return wait_for(look, "the question has its vector", 20)[0]


def letters_at(server: EmbeddingServer) -> EmbeddingOptions:
    return EmbeddingOptions(
        "endpoint", 1, server.url, "letters", lambda: KEY, private=True, timeout_s=5
    )


def letters(server: EmbeddingServer) -> LazyEmbedder:
    return LazyEmbedder(letters_at(server))


def test_a_question_to_an_endpoint_is_awaited_outside_of_the_transaction(tmp_path: Path) -> None:
    with embedding_server() as server:
        lazy = letters(server)
        store = open_store(tmp_path, lazy)
        write_all(store, "aaa", "bbb")
        embed(store, lazy)
        server.delay_s = 0.2

        with pytest.raises(VectorAwaited) as awaited:
            found(store, "aa")
        answer = settled(lambda: found(store, "aa"))

        assert awaited.value.after_s < 0.1
        assert answer == ["aaa"]
        assert server.asked.count(["aa"]) == 1
        store.close()


def test_an_endpoint_that_fails_leaves_hybrid_to_the_words(tmp_path: Path) -> None:
    with embedding_server() as server:
        lazy = letters(server)
        store = open_store(tmp_path, lazy)
        write_all(store, "aaa", "bbb")
        embed(store, lazy)
        server.instead = [(500, b"")]

        assert settled(lambda: found(store, "aaa", "hybrid")) == ["aaa"]
        server.instead = [(401, b"")]
        with pytest.raises(Refused, match="401"):
            settled(lambda: found(store, "bbb"))
        store.close()


def test_a_fault_is_the_answer_for_a_while_and_then_it_is_tried_again() -> None:
    now = [0.0]
    with embedding_server() as server:
        lazy = letters(server)
        fingerprint, questions = str(lazy.get().fingerprint), Questions(lazy, lambda: now[0])
        server.instead = [(500, b"")]

        def ask() -> list[object]:
            try:
                return [questions.ask("aa", fingerprint)]
            except VectorAwaited:
                return []
            except EmbeddingFault as fault:
                return [fault]

        first = wait_for(ask, "the fault")[0]
        second = ask()[0]
        now[0] += 60
        third = wait_for(ask, "the vector")[0]

        assert isinstance(first, EmbeddingFault) and first is second
        assert not isinstance(third, EmbeddingFault)
        questions.close()


def test_vectors_of_a_model_that_is_another_by_now_are_compared_with_no_question() -> None:
    lazy = LazyEmbedder(EmbeddingOptions("wordllama"))

    for questions in (
        Questions(lazy, stopped),
        Questions(lazy, stopped),
    ):  # before that model is loaded, and then
        with pytest.raises(
            EmbeddingFault, match="the vectors of this store are of all-MiniLM-L6-v2-int8/384/0123"
        ):
            settled(partial(asked, questions))
        questions.close()


def asked(questions: Questions) -> list[object]:
    return [questions.ask("tea", "all-MiniLM-L6-v2-int8/384/0123")]


def test_what_no_embedder_should_raise_is_told_to_who_asked_and_to_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    with embedding_server() as server:
        lazy = letters(server)
        fingerprint, questions = str(lazy.get().fingerprint), Questions(lazy, lambda: now[0])
        make_vectors = lazy.get().embed

        def embed(texts: Sequence[str]) -> Any:
            if texts == ["bad"]:
                raise MemoryError("no room")
            return make_vectors(texts)

        monkeypatch.setattr(lazy.get(), "embed", embed)

        with pytest.raises(MemoryError):
            settled(lambda: [questions.ask("bad", fingerprint)])
        assert settled(lambda: [questions.ask("aa", fingerprint)])
        now[0] += 2 * ANSWER_S
        assert settled(lambda: [questions.ask("bb", fingerprint)])
        questions.close()


def test_a_server_that_hangs_is_waited_for_by_one_question_at_a_time() -> None:
    now = [100.0]
    with embedding_server() as server:
        lazy = letters(server)
        fingerprint, questions = str(lazy.get().fingerprint), Questions(lazy, lambda: now[0])
        server.open.clear()
        with pytest.raises(VectorAwaited):
            questions.ask("aa", fingerprint)

        now[0] += MOST_S
        for text in ("aa", "bb"):  # the first was awaited in vain, and the second is not
            with pytest.raises(EmbeddingLater, match="no vector of the question within 5 s"):
                questions.ask(text, fingerprint)
        now[0] += ANSWER_S
        with pytest.raises(VectorAwaited):
            questions.ask("cc", fingerprint)
        with pytest.raises(EmbeddingLater):
            questions.ask("dd", fingerprint)
        server.open.set()

        assert settled(lambda: [questions.ask("cc", fingerprint)])
        assert settled(lambda: [questions.ask("dd", fingerprint)])
        questions.close()


def test_an_awaited_vector_is_kept_for_who_comes_late() -> None:
    now = [100.0]
    with embedding_server() as server:
        lazy = letters(server)
        fingerprint, questions = str(lazy.get().fingerprint), Questions(lazy, lambda: now[0])
        with pytest.raises(VectorAwaited):
            questions.ask("aa", fingerprint)
        wait_for(lambda: questions.known("aa", fingerprint) is not None, "it is there")

        now[0] += 1000

        assert settled(lambda: [questions.ask("aa", fingerprint)])
        assert server.asked.count(["aa"]) == 1
        questions.close()


def test_a_text_that_is_refused_keeps_no_other_from_being_prepared() -> None:
    with embedding_server() as server:
        lazy = letters(server)
        fingerprint, questions = str(lazy.get().fingerprint), Questions(lazy)
        server.refused = "bad"

        questions.prepare(["aa", "bad", "bb", "cc"]).result(20)

        assert [
            questions.known(text, fingerprint) is None for text in ("aa", "bad", "bb", "cc")
        ] == [False, True, False, False]
        questions.close()


def test_a_server_that_refused_at_first_is_asked_again_after_a_while() -> None:
    now = [100.0]
    with embedding_server() as server:
        lazy = LazyEmbedder(letters_at(server), lambda: now[0])
        server.instead = [(404, b"")]  # as of a model that is not pulled yet

        for _ in range(2):
            with pytest.raises(EmbeddingFault, match="404"):
                lazy.get()
        now[0] += 60

        assert (lazy.get().fingerprint.name, lazy.fault) == ("letters", "")

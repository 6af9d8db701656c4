"""mode hybrid over threads: the first nine by score, then threads that these lack, then the rest by
score."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.embedding.backfill import keep, make, next_task
from memrelay.memory.embedding.embedder import EmbeddingOptions
from memrelay.memory.embedding.loading import LazyEmbedder
from memrelay.memory.embedding.questions import Questions
from memrelay.memory.memory_id import path_of
from memrelay.memory.operations.records_search import SearchInput, search, search_explained
from memrelay.memory.operations.records_write import write
from memrelay.memory.records.record import Record
from memrelay.memory.search.pool import Meaning, Pool
from memrelay.memory.search.query import Boosts
from memrelay.memory.sqlite.store import Store
from tests.memory.builders import MEMORY_ID, NOW, PLENTY, contents, fresh_store, make_record


def say(store: Store, thread: str, *said: str, **changes: Any) -> None:
    with store.transaction() as tx:
        for text in said:
            write(tx, make_record(text, thread=thread, **changes))


def find(store: Store, query: str, **wanted: Any) -> list[Record]:
    with store.transaction() as tx:
        return search(tx, SearchInput(query, PLENTY, mode="hybrid", **wanted))


def threads(store: Store, query: str, **wanted: Any) -> list[str]:
    """The first letters, which the threads are named by here."""
    return [content[0] for content in contents(find(store, query, **wanted))]


def talk(store: Store) -> None:
    """Thirty turns of one thread that has all that is asked for; two turns of each of twelve others
    that have less and less."""
    say(store, "a", *["a green tea"] * 30)
    for number, name in enumerate("bcdefghijklm"):
        say(store, name, f"{name} green" + " leaf" * number, f"{name} other")


def test_threads_that_the_first_nine_lack_come_next_until_ten_are_there() -> None:
    with fresh_store() as store:
        talk(store)

        found = threads(store, "green tea", limit=60)

        assert found[:9] == ["a"] * 9
        assert found[9:18] == list("bcdefghij")  # the eleventh and twelfth thread wait
        assert found[18:39] == ["a"] * 21
        assert len(found) == 54 and sorted(found[39:]) == sorted("bcdefghij" + "kkllmm")


@pytest.mark.parametrize("limit", [1, 9, 10, 11, 15, 18, 20, 45])
def test_fewer_that_are_asked_for_are_the_first_of_more(limit: int) -> None:
    with fresh_store() as store:
        talk(store)

        assert find(store, "green tea", limit=limit) == find(store, "green tea", limit=1000)[:limit]


def test_nobody_is_lost_and_scores_stay() -> None:
    with fresh_store() as store:
        talk(store)

        found = find(store, "green tea", limit=1000)
        old = find(store, "green tea", limit=1000, boosts=Boosts(0.0001, 30, 0, NOW))

        assert {one.guid for one in found} == {one.guid for one in old} and len(found) == len(old)
        assert [one.score for one in old] == sorted(
            (one.score for one in old), reverse=True
        )  # with boosts scores alone count
        assert sorted(one.score for one in found) == pytest.approx(
            sorted(one.score for one in old), rel=1e-3
        )


def test_records_without_a_thread_keep_their_order_and_count_as_threads() -> None:
    with fresh_store() as store:
        for number in range(15):
            say(store, "", "tea" + " cup" * number)
        alone = contents(find(store, "tea", limit=100))
        say(store, "b", "b tea" + " leaf" * 500)
        mixed = contents(find(store, "tea", limit=100))

        assert alone == ["tea" + " cup" * number for number in range(15)]
        assert mixed[:15] == alone and mixed[15].startswith(
            "b tea"
        )  # ten were there: its score alone counts


def test_a_tenth_record_without_a_thread_stays_the_tenth() -> None:
    with fresh_store() as store:
        say(store, "a", *["a tea"] * 9)
        say(store, "", "tea")
        say(store, "b", "b tea" + " leaf" * 500)
        say(store, "", "tea cup")

        assert contents(find(store, "tea", limit=12))[9:] == [
            "tea",
            "b tea" + " leaf" * 500,
            "tea cup",
        ]


def test_filters_and_exclusions_hold_for_what_is_raised() -> None:
    with fresh_store() as store:
        talk(store)
        say(store, "n", "n green tea", kind="note")

        assert "n" not in threads(store, "green tea kind:observation", limit=100)
        assert threads(store, "green tea kind:note", limit=100) == ["n"]
        assert set(threads(store, "green tea -leaf -other", limit=100)) == set("abn")


def test_the_order_of_fts_knows_no_threads() -> None:
    with fresh_store() as store:
        talk(store)
        with store.transaction() as tx:
            found = search(tx, SearchInput("green", PLENTY, limit=100))

        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_an_explanation_tells_who_was_raised_and_by_what() -> None:
    with fresh_store() as store:
        talk(store)
        with store.transaction() as tx:
            found, told = search_explained(
                tx, SearchInput("green tea", PLENTY, mode="hybrid", limit=60)
            )

        raised = [hit for hit in told.hits if hit.raised is not None]
        assert [hit.rank for hit in raised] == list(range(10, 19))
        assert [hit.raised for hit in raised] == pytest.approx(
            [one.score for one in found[9:18]]
        )  # words alone


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Makes vectors of what is said in it where `embed` is called."""
    made = Store(
        MEMORY_ID, path_of(tmp_path, MEMORY_ID), meaning=Meaning(Questions(LAZY), Pool(1 << 20))
    )
    yield made
    made.close()


LAZY = LazyEmbedder(EmbeddingOptions("local"))


def embed(store: Store) -> None:
    while (task := next_task(store, LAZY.get(), True, 100)) is not None:
        if task.one is not None:
            keep(store, task.one, make(LAZY.get(), task.texts))


def test_with_vectors_a_thread_is_raised_for_what_a_record_of_it_means_by_itself(
    store: Store,
) -> None:
    say(store, "a", *[f"a my cat sleeps {letter}" for letter in "bcdefghijkl"])
    say(store, "b", "b he drove to the stadium", "b my", "b he drove home")
    say(store, "c", "c he drove to the stadium", "c kittens and cats like naps", "c he drove home")
    embed(store)

    found = contents(find(store, "my cat sleeps", limit=12))

    assert [one[0] for one in found[:9]] == ["a"] * 9
    assert found[9] == "c kittens and cats like naps"


def test_with_vectors_the_meaning_of_what_was_said_by_whom_the_question_names_counts_more(
    store: Store,
) -> None:
    say(store, "a", *[f"a my cat sleeps {letter}" for letter in "bcdefghijkl"], source="Ann")
    say(store, "b", "b dinner at six, sleep at nine", source="Ann")
    say(store, "c", "c dinner at six, sleep at nine", source="Bob")
    embed(store)

    with store.transaction() as tx:
        _, told = search_explained(
            tx, SearchInput("does the cat of Bob sleep", PLENTY, mode="hybrid", limit=20)
        )

    raised = {
        hit.speaker: (hit.raised, *(arm.score for arm in hit.arms))
        for hit in told.hits
        if hit.raised is not None
    }
    near = []  # both say the same words, so that these are as near
    for bob, more in ((True, 1.3), (False, 1)):
        worth, words, meaning = raised[bob]  # of a thread of one turn the window is the turn
        near.append(worth - 0.25 * (0.35 * words + 0.65 * more * meaning))
    assert near[0] == pytest.approx(near[1], rel=1e-3) and 0 < near[0] < 0.75

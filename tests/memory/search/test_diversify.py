"""Mode hybrid over threads: nine hits by score, then threads missing from these, then the rest by
score."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.records.record import Record
from memrelay.memory.records.writing import write
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.pool import Pool, SemanticResources
from memrelay.memory.search.query import Boosts
from memrelay.memory.search.search import SearchInput, search, search_explained
from tests.memory.builders import MEMORY_ID, NOW, PLENTY, contents, fresh_store, make_record
from tests.memory.search.embedding.embedders import embed_all


def write_turns(store: Store, thread: str, *texts: str, **changes: Any) -> None:
    with store.transaction() as tx:
        for text in texts:
            write(tx, make_record(text, thread=thread, **changes))


def find(store: Store, query: str, **wanted: Any) -> list[Record]:
    with store.transaction() as tx:
        return search(tx, SearchInput(query, PLENTY, mode="hybrid", **wanted))


def threads(store: Store, query: str, **wanted: Any) -> list[str]:
    """Return the first letter of each hit, which names its thread."""
    return [content[0] for content in contents(find(store, query, **wanted))]


def write_thirteen_threads(store: Store) -> None:
    """Write 30 turns of one thread with both words, and two turns each of 12 threads with ever
    lower scores."""
    write_turns(store, "a", *["a green tea"] * 30)
    for number, name in enumerate("bcdefghijklm"):
        write_turns(store, name, f"{name} green" + " leaf" * number, f"{name} other")


def test_after_nine_hits_missing_threads_are_raised_until_ten_are_present() -> None:
    with fresh_store() as store:
        write_thirteen_threads(store)

        found = threads(store, "green tea", limit=60)

        assert found[:9] == ["a"] * 9
        assert found[9:18] == list(
            "bcdefghij"
        )  # the eleventh and twelfth other thread are not raised
        assert found[18:39] == ["a"] * 21
        assert len(found) == 54 and sorted(found[39:]) == sorted("bcdefghij" + "kkllmm")


@pytest.mark.parametrize("limit", [1, 9, 10, 11, 15, 18, 20, 45])
def test_a_smaller_limit_returns_a_prefix_of_a_larger_one(limit: int) -> None:
    with fresh_store() as store:
        write_thirteen_threads(store)

        assert find(store, "green tea", limit=limit) == find(store, "green tea", limit=1000)[:limit]


def test_raising_loses_no_record_and_changes_no_score() -> None:
    with fresh_store() as store:
        write_thirteen_threads(store)

        found = find(store, "green tea", limit=1000)
        old = find(store, "green tea", limit=1000, boosts=Boosts(0.0001, 30, 0, NOW))

        assert {one.guid for one in found} == {one.guid for one in old} and len(found) == len(old)
        assert [one.score for one in old] == sorted(
            (one.score for one in old),
            reverse=True,
            # with boosts, only scores decide the order
        )
        assert sorted(one.score for one in found) == pytest.approx(
            sorted(one.score for one in old), rel=1e-3
        )


def test_records_without_a_thread_keep_their_order_and_count_as_threads() -> None:
    with fresh_store() as store:
        for number in range(15):
            write_turns(store, "", "tea" + " cup" * number)
        alone = contents(find(store, "tea", limit=100))
        write_turns(store, "b", "b tea" + " leaf" * 500)
        mixed = contents(find(store, "tea", limit=100))

        assert alone == ["tea" + " cup" * number for number in range(15)]
        assert mixed[:15] == alone and mixed[15].startswith(
            "b tea"
            # ten were present, so only its score counts
        )


def test_a_tenth_record_without_a_thread_stays_in_place() -> None:
    with fresh_store() as store:
        write_turns(store, "a", *["a tea"] * 9)
        write_turns(store, "", "tea")
        write_turns(store, "b", "b tea" + " leaf" * 500)
        write_turns(store, "", "tea cup")

        assert contents(find(store, "tea", limit=12))[9:] == [
            "tea",
            "b tea" + " leaf" * 500,
            "tea cup",
        ]


def test_raised_records_obey_filters_and_exclusions() -> None:
    with fresh_store() as store:
        write_thirteen_threads(store)
        write_turns(store, "n", "n green tea", kind="note")

        assert "n" not in threads(store, "green tea kind:observation", limit=100)
        assert threads(store, "green tea kind:note", limit=100) == ["n"]
        assert set(threads(store, "green tea -leaf -other", limit=100)) == set("abn")


def test_fts_mode_ignores_threads() -> None:
    with fresh_store() as store:
        write_thirteen_threads(store)
        with store.transaction() as tx:
            found = search(tx, SearchInput("green", PLENTY, limit=100))

        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_an_explanation_shows_which_hits_were_raised() -> None:
    with fresh_store() as store:
        write_thirteen_threads(store)
        with store.transaction() as tx:
            found, explanation = search_explained(
                tx, SearchInput("green tea", PLENTY, mode="hybrid", limit=60)
            )

        raised = [hit for hit in explanation.hits if hit.raised is not None]
        assert [hit.rank for hit in raised] == list(range(10, 19))
        assert [hit.raised for hit in raised] == pytest.approx(
            [one.score for one in found[9:18]]
            # without vectors, only words count
        )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with an embedder. `embed_all` makes the vectors."""
    made = Store(
        MEMORY_ID,
        store_path(tmp_path, MEMORY_ID),
        meaning=SemanticResources(QuestionEmbedder(LAZY), Pool(1 << 20)),
    )
    yield made
    made.close()


LAZY = LazyEmbedder(EmbeddingOptions("local"))


def test_with_vectors_a_thread_is_raised_by_the_meaning_of_one_record(
    store: Store,
) -> None:
    write_turns(store, "a", *[f"a my cat sleeps {letter}" for letter in "bcdefghijkl"])
    write_turns(store, "b", "b he drove to the stadium", "b my", "b he drove home")
    write_turns(
        store, "c", "c he drove to the stadium", "c kittens and cats like naps", "c he drove home"
    )
    embed_all(store, LAZY.get())

    found = contents(find(store, "my cat sleeps", limit=12))

    assert [one[0] for one in found[:9]] == ["a"] * 9
    assert found[9] == "c kittens and cats like naps"


def test_with_vectors_the_meaning_of_the_named_speakers_turns_counts_more(
    store: Store,
) -> None:
    write_turns(
        store, "a", *[f"a my cat sleeps {letter}" for letter in "bcdefghijkl"], source="Ann"
    )
    write_turns(store, "b", "b dinner at six, sleep at nine", source="Ann")
    write_turns(store, "c", "c dinner at six, sleep at nine", source="Bob")
    embed_all(store, LAZY.get())

    with store.transaction() as tx:
        _, explanation = search_explained(
            tx, SearchInput("does the cat of Bob sleep", PLENTY, mode="hybrid", limit=20)
        )

    raised = {
        hit.speaker: (hit.raised, *(arm.score for arm in hit.arms))
        for hit in explanation.hits
        if hit.raised is not None
    }
    near = []  # both turns have the same words, so both values are equal
    for bob, more in ((True, 1.3), (False, 1)):
        worth, words, meaning = raised[bob]  # the window of a one-turn thread is the turn
        near.append(worth - 0.25 * (0.35 * words + 0.65 * more * meaning))
    assert near[0] == pytest.approx(near[1], rel=1e-3) and 0 < near[0] < 0.75

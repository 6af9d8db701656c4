"""Mode hybrid reranks the best turns by how well they and their neighbors answer the query."""

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.records.record import Record
from memrelay.memory.records.writing import write
from memrelay.memory.search.explanation import Explanation
from memrelay.memory.search.query import Boosts
from memrelay.memory.search.rerank import READ
from memrelay.memory.search.search import SearchInput, search, search_explained
from tests.memory.builders import NOW, PLENTY, contents, fresh_store, make_record


def write_turns(store: Store, thread: str, *texts: str) -> None:
    with store.transaction() as tx:
        for text in texts:
            write(tx, make_record(text, thread=thread))


def search_hybrid(store: Store, query: str, **wanted: object) -> tuple[list[Record], Explanation]:
    with store.transaction() as tx:
        return search_explained(tx, SearchInput(query, PLENTY, mode="hybrid", **wanted))  # type: ignore[arg-type]


def write_two_threads(store: Store) -> None:
    """Write two threads that share one word of the query. One of them has a synonym of the other
    word."""
    write_turns(store, "a", "She adopted a lamp.")
    write_turns(store, "b", "She adopted a dog.")


def test_a_synonym_of_the_query_ranks_first() -> None:
    with fresh_store() as store:
        write_two_threads(store)

        found, explanation = search_hybrid(store, "adopted puppy")

        assert contents(found) == ["She adopted a dog.", "She adopted a lamp."]
        assert (
            found[0].score == found[1].score
            # reranking changes no score
        )
        assert explanation.hits[0].read > explanation.hits[1].read > explanation.hits[1].score  # type: ignore[operator]


def test_neighboring_turns_count() -> None:
    with fresh_store() as store:
        for thread, pet in (("a", "lamp"), ("b", "dog")):
            write_turns(store, thread, "She adopted one.", f"That is a {pet}.", "Nice.")

        found, explanation = search_hybrid(store, "adopted puppy")

        assert contents(found)[:2] == ["She adopted one."] * 2 and found[0].score == found[1].score
        assert explanation.hits[0].read > explanation.hits[1].read  # type: ignore[operator]


@pytest.mark.parametrize(
    "wanted", [{"language": "none"}, {"language": "german"}, {"boosts": Boosts(0.1, 30, 0, NOW)}]
)
def test_other_languages_and_boosts_disable_reranking(wanted: dict[str, object]) -> None:
    with fresh_store() as store:
        write_two_threads(store)

        found, explanation = search_hybrid(store, "adopted puppy", **wanted)

        assert contents(found) == ["She adopted a dog.", "She adopted a lamp."]
        assert [hit.read for hit in explanation.hits] == [None, None]


def test_a_store_without_threads_is_not_reranked() -> None:
    with fresh_store() as store:
        write_turns(store, "", "She adopted a lamp.", "She adopted a dog.")

        assert contents(search_hybrid(store, "adopted puppy")[0]) == [
            "She adopted a dog.",
            "She adopted a lamp.",
        ]


def test_records_without_a_thread_are_reranked_together_with_turns() -> None:
    with fresh_store() as store:
        write_two_threads(store)
        write_turns(store, "", "She adopted a puppy.")

        assert contents(search_hybrid(store, "adopted puppy")[0])[0] == "She adopted a puppy."


def test_a_query_of_names_only_keeps_the_order() -> None:
    with fresh_store() as store:
        for text, source in (("Hello Ann.", "Bob"), ("Hello Bob.", "Ann")):
            with store.transaction() as tx:
                write(tx, make_record(text, thread="a", source=source))

        found, explanation = search_hybrid(store, "Ann?")

        assert [hit.read for hit in explanation.hits] == pytest.approx([one.score for one in found])


@pytest.mark.parametrize("limit", [1, 5, READ - 1, READ, READ + 1, 3 * READ])
def test_a_smaller_limit_returns_a_prefix_of_a_larger_one(limit: int) -> None:
    with fresh_store() as store:
        for number in range(60):
            write_turns(
                store,
                f"{number % 13}",
                f"tea {'leaf ' * (number % 7)}{'cup' if number % 3 else 'mug'} {number}.",
            )
        with store.transaction() as tx:
            whole, limited = (
                search(tx, SearchInput("tea mugs", PLENTY, mode="hybrid", limit=most))
                for most in (100, limit)
            )

        assert len(whole) == 60 and limited == whole[:limit]


def test_exclusions_and_a_zero_limit_hold_after_reranking() -> None:
    with fresh_store() as store:
        write_two_threads(store)

        assert contents(search_hybrid(store, "adopted puppy -dog")[0]) == ["She adopted a lamp."]
        assert search_hybrid(store, "adopted puppy", limit=0)[0] == []

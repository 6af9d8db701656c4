"""mode hybrid: the best turns stand in the order in which they, and what stands around them, say
what was asked for."""

import pytest

from memrelay.memory.operations.records_search import SearchInput, search, search_explained
from memrelay.memory.operations.records_write import write
from memrelay.memory.records.record import Record
from memrelay.memory.search.explanation import Explanation
from memrelay.memory.search.query import Boosts
from memrelay.memory.search.rerank import READ
from memrelay.memory.sqlite.store import Store
from tests.memory.builders import NOW, PLENTY, contents, fresh_store, make_record


def say(store: Store, thread: str, *said: str) -> None:
    with store.transaction() as tx:
        for text in said:
            write(tx, make_record(text, thread=thread))


def asked(store: Store, query: str, **wanted: object) -> tuple[list[Record], Explanation]:
    with store.transaction() as tx:
        return search_explained(tx, SearchInput(query, PLENTY, mode="hybrid", **wanted))  # type: ignore[arg-type]


def talks(store: Store) -> None:
    """Two threads that have one word of the question equally; one has another word for the
    other."""
    say(store, "a", "She adopted a lamp.")
    say(store, "b", "She adopted a dog.")


def test_another_word_for_what_is_asked_for_comes_first() -> None:
    with fresh_store() as store:
        talks(store)

        found, told = asked(store, "adopted puppy")

        assert contents(found) == ["She adopted a dog.", "She adopted a lamp."]
        assert (
            found[0].score == found[1].score
        )  # as without it: what a record is worth hangs on no other
        assert told.hits[0].read > told.hits[1].read > told.hits[1].score  # type: ignore[operator]


def test_what_stands_around_a_turn_counts_for_it() -> None:
    with fresh_store() as store:
        for thread, pet in (("a", "lamp"), ("b", "dog")):
            say(store, thread, "She adopted one.", f"That is a {pet}.", "Nice.")

        found, told = asked(store, "adopted puppy")

        assert contents(found)[:2] == ["She adopted one."] * 2 and found[0].score == found[1].score
        assert told.hits[0].read > told.hits[1].read  # type: ignore[operator]


@pytest.mark.parametrize(
    "wanted", [{"language": "none"}, {"language": "german"}, {"boosts": Boosts(0.1, 30, 0, NOW)}]
)
def test_other_languages_and_searches_that_boost_go_by_scores(wanted: dict[str, object]) -> None:
    with fresh_store() as store:
        talks(store)

        found, told = asked(store, "adopted puppy", **wanted)

        assert contents(found) == ["She adopted a lamp.", "She adopted a dog."]
        assert [hit.read for hit in told.hits] == [None, None]


def test_a_store_without_threads_goes_by_scores() -> None:
    with fresh_store() as store:
        say(store, "", "She adopted a lamp.", "She adopted a dog.")

        assert contents(asked(store, "adopted puppy")[0]) == [
            "She adopted a lamp.",
            "She adopted a dog.",
        ]


def test_records_without_a_thread_are_read_beside_turns() -> None:
    with fresh_store() as store:
        talks(store)
        say(store, "", "She adopted a puppy.")

        assert contents(asked(store, "adopted puppy")[0])[0] == "She adopted a puppy."


def test_names_and_signs_alone_leave_the_order() -> None:
    with fresh_store() as store:
        for text, source in (("Hello Ann.", "Bob"), ("Hello Bob.", "Ann")):
            with store.transaction() as tx:
                write(tx, make_record(text, thread="a", source=source))

        found, told = asked(store, "Ann?")

        assert [hit.read for hit in told.hits] == pytest.approx([one.score for one in found])


@pytest.mark.parametrize("limit", [1, 5, READ - 1, READ, READ + 1, 3 * READ])
def test_fewer_that_are_asked_for_are_the_first_of_more(limit: int) -> None:
    with fresh_store() as store:
        for number in range(60):
            say(
                store,
                f"{number % 13}",
                f"tea {'leaf ' * (number % 7)}{'cup' if number % 3 else 'mug'} {number}.",
            )
        with store.transaction() as tx:
            whole, some = (
                search(tx, SearchInput("tea mugs", PLENTY, mode="hybrid", limit=most))
                for most in (100, limit)
            )

        assert len(whole) == 60 and some == whole[:limit]


def test_filters_hold_for_what_is_read_and_a_deleted_neighbour_is_not() -> None:
    with fresh_store() as store:
        talks(store)

        assert contents(asked(store, "adopted puppy -dog")[0]) == ["She adopted a lamp."]
        assert asked(store, "adopted puppy", limit=0)[0] == []

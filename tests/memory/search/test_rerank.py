"""Mode hybrid reranks the best turns by how well they and their neighbors answer the query."""

from itertools import product

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


@pytest.mark.parametrize("wanted", [{"language": "none"}, {"boosts": Boosts(0.1, 30, 0, NOW)}])
def test_no_language_and_boosts_disable_reranking(wanted: dict[str, object]) -> None:
    with fresh_store() as store:
        write_two_threads(store)

        found, explanation = search_hybrid(store, "adopted puppy", **wanted)

        assert contents(found) == ["She adopted a dog.", "She adopted a lamp."]
        assert [hit.read for hit in explanation.hits] == [None, None]


def test_near_words_are_those_of_english() -> None:
    with fresh_store() as store:
        write_two_threads(store)

        _, explanation = search_hybrid(store, "adopted puppy", language="german")

        assert all(hit.signals.keys() == {"window", "segment"} for hit in explanation.hits)


def test_a_statement_ranks_before_a_question_with_the_same_words() -> None:
    with fresh_store() as store:
        write_turns(store, "a", "green tea?")
        write_turns(store, "b", "green tea.")

        found, explanation = search_hybrid(store, "green tea")

        assert contents(found) == ["green tea.", "green tea?"] and found[0].score == found[1].score
        assert explanation.hits[1].signals["question"] == pytest.approx(-0.8)
        assert "question" not in explanation.hits[0].signals


def test_the_answer_to_a_question_with_the_words_ranks_higher() -> None:
    with fresh_store() as store:
        write_turns(store, "a", "Which tea do you like?", "Oolong is best.")
        write_turns(store, "b", "I like which one?", "No tea, please.", "Fine.")

        found, explanation = search_hybrid(store, "which tea")

        signals = dict(zip(contents(found), (hit.signals for hit in explanation.hits), strict=True))
        assert signals["Oolong is best."]["answer"] > 0
        assert "answer" not in signals["Which tea do you like?"]


def test_a_question_with_several_answers_prefers_the_speaker_and_names() -> None:
    with fresh_store() as store:
        for source, text in (
            ("Ann", "My books are by Tolkien."),
            ("Bob", "My books are by Herbert."),
            ("Ann", "My books are by nobody."),
        ):
            with store.transaction() as tx:
                write(tx, make_record(text, thread=source + text[-4:], source=source))
        found, explanation = search_hybrid(store, "What books does Ann have?")

        assert contents(found)[0] == "My books are by Tolkien."
        signals = [hit.signals for hit in explanation.hits]
        assert signals[0]["names"] > 0 and signals[0]["speaker"] == pytest.approx(0.1)
        assert signals[-1]["speaker"] == pytest.approx(-0.1)
        _, explanation = search_hybrid(store, "Which book does Ann have?")
        assert not any({"names", "speaker"} & hit.signals.keys() for hit in explanation.hits)


def test_speakers_that_a_question_names_take_turns() -> None:
    texts = {"Ann": "tea and more tea", "Bob": "tea", "Cleo": "tea"}
    with fresh_store() as store:
        with store.transaction() as tx:
            for number, source in product(range(4), texts):
                text = f"{texts[source]} {number}"
                write(tx, make_record(text, thread=f"{number}", source=source))
        with store.transaction() as tx:
            found = search(tx, SearchInput("tea of Ann and Bob", PLENTY, mode="hybrid", limit=6))

        sources = [one.source for one in found]
        assert {*sources[:3]} == {"Ann", "Bob", "Cleo"} and {*sources[3:]} == {"Ann", "Bob", "Cleo"}


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

        assert found == sorted(found, key=lambda one: -(one.score or 0))
        assert not any({"words", "near"} & hit.signals.keys() for hit in explanation.hits)


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

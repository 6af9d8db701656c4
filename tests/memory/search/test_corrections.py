"""Corrections of misspelled words in ranked searches, and words that stay as they are."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.search.explanation import Explanation
from memrelay.memory.search.search import SearchInput, search_explained
from memrelay.memory.search.spelling import MAX_CORRECTED, MAX_NEAR
from tests.memory.builders import PLENTY, make_store, write_all

CONTENTS = (
    "The quarterly meeting with the supplier is in Lisbon",
    "Grandma's porridge needs cinnamon and raisins",
    "Ticket INV2041 is blocked by the payment gateway",
    "Kuchen und Bratwurst vom Marktplatz",
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    write_all(store, *CONTENTS)
    yield store
    store.close()


def explain(store: Store, query: str, **wanted: str) -> tuple[list[str], Explanation]:
    with store.transaction() as tx:
        found, explanation = search_explained(
            tx,
            SearchInput(query, PLENTY, mode="hybrid", **wanted),  # type: ignore[arg-type]
        )
    return [record.content for record in found], explanation


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("cinamon", 1),  # a letter left out
        ("cinnnamon", 1),  # inserted
        ("cinnemon", 1),  # replaced
        ("cinnmaon", 1),  # swapped
        ("porrigde raisns", 1),
        ("quaterly meetings", 0),
        ("Lisbonn", 0),
        ("Bratwrust", 3),
        ("meting", 0),  # looks like a form of `mete`
    ],
)
def test_a_misspelled_word_finds_the_record(store: Store, query: str, place: int) -> None:
    found, _ = explain(store, query)

    assert found[0] == CONTENTS[place]


def test_the_explanation_shows_the_correction(store: Store) -> None:
    _, explanation = explain(store, "the cinamon supplier")

    (term, other, stop_word) = explanation.terms
    assert (term.term, term.state, term.spellings) == ("cinamon", "corrected", ("cinnamon",))
    assert (other.state, stop_word.state) == ("wanted", "stop word")


@pytest.mark.parametrize("query", ["INV2042", "V2041", "2042", "tae", '"cinamon rasins"'])
def test_identifiers_numbers_short_words_and_phrases_are_not_corrected(
    store: Store, query: str
) -> None:
    assert explain(store, query)[0] == []


def test_a_correct_word_keeps_its_meaning(store: Store) -> None:
    found, explanation = explain(store, "tickets porridge teeing")  # not `meeting`

    assert found[0] == CONTENTS[1] or found[0] == CONTENTS[2]
    assert explanation.query.compared == ""
    assert explain(store, "seating")[0] == []  # a known word is no evidence for `meeting`


def test_a_misspelled_stop_word_is_left_out(store: Store) -> None:
    write_all(store, "about " * 3, "what about tea")

    _, explanation = explain(store, "abuot cinnamon")

    assert [term.term for term in explanation.terms] == ["cinnamon"]


def test_a_speaker_is_found_by_a_misspelled_name(store: Store) -> None:
    write_all(store, "I paint lakes", source="Caroline", thread="t")
    write_all(store, "I paint lakes too", source="Melanie", thread="t")

    found, explanation = explain(store, "what does Carolin paint")

    assert found[0] == "I paint lakes" and explanation.hits[0].speaker
    assert explanation.terms[0].state == "speaker"


def test_the_name_of_a_speaker_is_not_corrected(store: Store) -> None:
    write_all(store, "Caroll Street is closed", source="Carola", thread="t")
    write_all(store, "Yes", source="Ben", thread="t")

    _, explanation = explain(store, "Carola")

    assert (explanation.terms[0].state, explanation.terms[0].spellings) == ("speaker", ())


def test_corrections_are_bounded(store: Store) -> None:
    write_all(store, "plarn plorn plurn plirn plern")

    _, explanation = explain(store, "plrn cinamon porrigde raisns suplier")

    corrected = [term for term in explanation.terms if term.state == "corrected"]
    assert len(corrected) == MAX_CORRECTED and len(corrected[0].spellings) == MAX_NEAR


def test_without_stems_words_are_corrected_too(store: Store) -> None:
    assert explain(store, "cinamon", language="none")[0] == [CONTENTS[1]]


def test_a_word_of_nearly_the_same_meaning_is_found_but_counts_less(store: Store) -> None:
    write_all(store, "Bob walks the pet", "Bob walks the dog")

    found, explanation = explain(store, "dog")

    assert found == ["Bob walks the dog", "Bob walks the pet"]
    assert explanation.terms[0].spellings == ("dog", "pet")
    assert explain(store, "canine", language="none")[0] == []

"""Questions: those with several answers, closing questions, and names in a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.search.text.questions import (
    closing_question_share,
    count_names,
    wants_several,
)


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("", 0),
        ("?", 1),
        ("Tea?", 1),
        ("Tea? ", 1),
        ("Tea", 0),
        ("Tea? Yes.", 0),
        ("Tea??", 1),
        ("Tea. Tea?", 4 / 9),
        ("Tea! Tea?", 4 / 9),
        ("Cup? Tea?", 4 / 9),
        ("Tea\nTea?", 4 / 8),
        ("v1.2?", 1),
        ("\u8336\u3002\u8336\uff1f", 2 / 4),
        ("\u0634\u0627\u064a\u061f", 1),
    ],
)
def test_the_closing_question_is_a_share_of_the_text(text: str, share: float) -> None:
    assert closing_question_share(text) == pytest.approx(share)


@given(st.text())
def test_the_signals_of_any_text_are_within_their_bounds(text: str) -> None:
    assert 0 <= closing_question_share(text) <= 1
    assert 0 <= count_names(text) <= 6
    assert wants_several(text) in (True, False)


@pytest.mark.parametrize(
    "question",
    [
        "What books has Ada read?",
        "Which cities did we visit?",
        "What are the names of her dogs?",
        "How many times did Ada go to Oslo?",
        "What has Ada painted?",
        "Where has Ben made friends?",
        "Which city have both Ada and Ben visited?",
        "What kinds of pies do they bake?",
        "Which people helped?",
        "list all orders of May",
    ],
)
def test_questions_for_a_class_or_a_count_have_several_answers(question: str) -> None:
    assert wants_several(question)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "tea",
        "When did Ada go to Oslo?",
        "What is the password of the router?",
        "What does she like about this class?",
        "Has Ada read the books?",
        "What was the price of the tickets?",
        "Who is Ada's sister?",
    ],
)
def test_other_questions_have_one_answer(question: str) -> None:
    assert not wants_several(question)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("We read.", 0),
        ("I loved The Hobbit, and Dune.", 3),
        ('She read "the hobbit" twice.', 1),
        ("Oslo was cold.", 0),
        ("to Ada, Ben, Cleo, Dan, Eve, Fay, Gil", 6),
    ],
)
def test_capitalized_words_are_counted_within_sentences(text: str, count: int) -> None:
    assert count_names(text) == count

"""Normal forms are Unicode's, and a text of marks alone holds nobody up."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.records.entry_text import normalized
from memrelay.memory.text.folding import MOST_MARKS, normal
from memrelay.memory.text.words import parts_of

MARKS = "\u0301\u0316\u05b0\u0591\u0f73\u093c\u094d\uff9e"


@given(
    st.sampled_from(["NFC", "NFD", "NFKC"]),
    st.text(st.characters() | st.sampled_from(MARKS), max_size=300),
)
def test_what_has_few_marks_on_a_letter_is_as_unicode_has_it(form: str, text: str) -> None:
    assert normal(form, text[:MOST_MARKS]) == unicodedata.normalize(form, text[:MOST_MARKS])  # type: ignore[arg-type]
    spaced = "x".join(text)
    assert normal(form, spaced) == unicodedata.normalize(form, spaced)  # type: ignore[arg-type]


@given(st.integers(0, 2 * MOST_MARKS), st.integers(0, 200))
def test_what_is_left_out_does_not_depend_on_where_the_marks_stand(before: int, more: int) -> None:
    run = "a" + "\u0301\u0316" * (MOST_MARKS // 2)

    assert normal("NFD", "b" * before + run + "\u0316" * more + "c") == unicodedata.normalize(
        "NFD", "b" * before + run + "c"
    )


@pytest.mark.parametrize(
    "marks", ["\u05b0\u0591\u05b1", "\u0f73", "\u093c\u094d", "\uff9e\u0301", "ß\u0301\u0316"]
)
def test_a_megabyte_of_marks_is_made_plain_in_a_second(marks: str) -> None:
    text, began = "ßक日" + marks[-2:] * ((1 << 18) // len(marks[-2:])), time.process_time()

    parts_of(text)
    normalized(text)

    assert time.process_time() - began < 5

"""Unicode normal forms, and the limit on combining marks."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.models.named_memories.entry_text import normalized
from memrelay.memory.search.text.folding import MOST_MARKS, normal
from memrelay.memory.search.text.words import parts_of

MARKS = "\u0301\u0316\u05b0\u0591\u0f73\u093c\u094d\uff9e"


@given(
    st.sampled_from(["NFC", "NFD", "NFKC"]),
    st.text(st.characters() | st.sampled_from(MARKS), max_size=300),
)
def test_a_text_with_few_combining_marks_is_normalized_as_unicode_defines(
    form: str, text: str
) -> None:
    assert normal(form, text[:MOST_MARKS]) == unicodedata.normalize(form, text[:MOST_MARKS])  # type: ignore[arg-type]
    spaced = "x".join(text)
    assert normal(form, spaced) == unicodedata.normalize(form, spaced)  # type: ignore[arg-type]


@given(st.integers(0, 2 * MOST_MARKS), st.integers(0, 200))
def test_excess_combining_marks_are_dropped_at_any_position(before: int, more: int) -> None:
    run = "a" + "\u0301\u0316" * (MOST_MARKS // 2)

    assert normal("NFD", "b" * before + run + "\u0316" * more + "c") == unicodedata.normalize(
        "NFD", "b" * before + run + "c"
    )


@pytest.mark.parametrize(
    "marks", ["\u05b0\u0591\u05b1", "\u0f73", "\u093c\u094d", "\uff9e\u0301", "ß\u0301\u0316"]
)
def test_a_long_run_of_combining_marks_is_normalized_in_bounded_time(marks: str) -> None:
    text, started_s = "ßक日" + marks[-2:] * ((1 << 18) // len(marks[-2:])), time.process_time()

    parts_of(text)
    normalized(text)

    assert time.process_time() - started_s < 30

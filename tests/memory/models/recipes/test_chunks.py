"""The chunks of documents."""

from hypothesis import example, given
from hypothesis import strategies as st

from memrelay.memory.models.recipes.documents import MAX_CHARACTERS, split_text

TEXTS = st.lists(
    st.sampled_from(["word ", "A sentence. ", "\n", "\n\n", "x" * 1300, "\u3002", "é" * 50]),
    max_size=200,
).map("".join)


@given(TEXTS)
@example("")
@example("x" * MAX_CHARACTERS)
def test_chunks_are_bounded_and_join_to_the_text(text: str) -> None:
    chunks = list(split_text(text))

    assert "".join(chunks) == text
    assert all(len(chunk) <= MAX_CHARACTERS for chunk in chunks)
    assert all(chunks) or not text


def test_a_chunk_ends_at_a_paragraph_before_a_later_sentence() -> None:
    first, second = "One. " * 100 + "\n\n", "Two. " * 200

    assert list(split_text(first + second)) == [first, second]


def test_a_chunk_ends_at_a_sentence_before_a_later_line_or_word() -> None:
    sentence, rest = "a " * 400 + "end. ", "b\n" * 500

    assert next(iter(split_text(sentence + rest))) == sentence


def test_a_word_that_is_too_long_is_cut() -> None:
    assert list(map(len, split_text("x" * 3000))) == [1200, 1200, 600]

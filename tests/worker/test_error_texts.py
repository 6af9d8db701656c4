"""Texts of exceptions in dead letters and answers."""

from memrelay.worker.errors import MAX_CHARACTERS, describe_error


def test_an_error_text_is_short_and_valid_utf_8() -> None:
    text = describe_error(ValueError("bad \ud800" + "x" * 2 * MAX_CHARACTERS))

    assert text.startswith("bad \\ud800x")
    assert len(text.encode()) < MAX_CHARACTERS + 10

"""Texts of exceptions in dead letters and answers."""

import pytest

from memrelay.worker.errors import MAX_CHARACTERS, describe_error


def test_an_error_text_is_short_and_valid_utf_8() -> None:
    text = describe_error(ValueError("bad \ud800" + "x" * 2 * MAX_CHARACTERS))

    assert text.startswith("bad \\ud800x")
    assert len(text.encode()) < MAX_CHARACTERS + 10


class Strange(Exception):
    """Its cause cannot be read, as that of a proxy whose connection is gone."""

    @property
    def __cause__(self) -> BaseException:  # type: ignore[override]
        raise ConnectionError


class Silent(Exception):
    """It ends the program that asks for its text."""

    def __str__(self) -> str:
        raise SystemExit


@pytest.mark.parametrize(
    ("fault", "text"), [(Strange("odd"), "odd"), (Silent(), "<exception str() failed>")]
)
def test_every_exception_has_a_text(fault: Exception, text: str) -> None:
    assert describe_error(fault) == text

"""add_1: the example block."""

import pytest
from pydantic import ValidationError

from memrelay.blocks.add_1 import add_1
from memrelay.testing import run_block


def answer(text: str, amount: int = 1) -> str:
    message = run_block(add_1, text, agent="dispatch", amount=amount)
    assert message is not None
    assert (message.sender, message.type) == ("dispatch", "text/plain")
    return message.text


@pytest.mark.parametrize(
    ("text", "total"), [("1", "2"), ("-1", "0"), (" 41\n", "42"), ("9" * 30, "1" + "0" * 30)]
)
def test_one_is_added_by_default(text: str, total: str) -> None:
    message = run_block(add_1, text)

    assert message is not None and message.text == answer(text) == total


def test_the_given_amount_is_added() -> None:
    assert answer("40", amount=2) == "42"


@pytest.mark.parametrize(
    "text", ["", "tea", "1.5", "1e3", "0x10", "NaN", "1 2", "--1", "9" * 5000, "9" * 4300, "\x00"]
)
def test_a_text_that_is_not_an_integer_returns_an_error(text: str) -> None:
    assert answer(text) == "ERR"


def test_an_amount_is_a_number() -> None:
    with pytest.raises(ValidationError):
        run_block(add_1, "1", amount="much")

"""add_1: the example block."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.blocks.calls import args_of, ask


def said(text: str | None, **args: Any) -> str:
    spoken = ask("add_1", text, **args)
    assert spoken is not None
    (part,) = spoken["args"]
    assert (spoken["from"], part["type"]) == ("dispatch", "text/plain")
    return str(part["text"])


@pytest.mark.parametrize(
    ("text", "total"), [("1", "2"), ("-1", "0"), (" 41\n", "42"), ("9" * 30, "1" + "0" * 30)]
)
def test_one_is_added_by_default(text: str, total: str) -> None:
    assert said(text) == total


def test_the_given_amount_is_added() -> None:
    assert said("40", amount=2) == "42"


@pytest.mark.parametrize(
    "text",
    ["", None, "tea", "1.5", "1e3", "0x10", "NaN", "1 2", "--1", "9" * 5000, "9" * 4300, "\x00"],
)
def test_a_text_that_is_not_an_integer_returns_an_error(text: str | None) -> None:
    assert said(text) == "ERR"


def test_an_amount_is_a_number() -> None:
    with pytest.raises(ValidationError):
        args_of("add_1", amount="much")

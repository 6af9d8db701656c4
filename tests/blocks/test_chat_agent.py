"""chat_agent: a block without a function, with display options."""

from typing import Any

import pytest
from pydantic import ValidationError

from memrelay.blocks.registry import built_in_blocks
from tests.blocks.calls import args_of


def test_a_chat_has_no_function() -> None:
    assert built_in_blocks()["chat_agent"].handle is None


def test_its_arguments_are_display_options() -> None:
    assert args_of("chat_agent").model_dump() == {
        "markdown": True,
        "darkmode": False,
        "page_mode": "chat",
    }
    assert args_of("chat_agent", page_mode="page", darkmode="true").model_dump()["darkmode"] is True


@pytest.mark.parametrize(
    "args", [{"page_mode": "book"}, {"markdown": "perhaps"}, {"memory_id": "a/b"}]
)
def test_other_arguments_are_an_error_at_deploy(args: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        args_of("chat_agent", **args)


def test_it_has_no_store_and_accepts_every_text() -> None:
    args = args_of("chat_agent")

    assert (args.store, args.selector, args.warnings()) == ("", None, [])

"""viewer_agent: a block without a function, with display options."""

import pytest
from pydantic import ValidationError

from memrelay.blocks.registry import built_in_blocks
from tests.blocks.calls import args_of


def test_a_viewer_has_no_function() -> None:
    assert built_in_blocks()["viewer_agent"].handle is None


def test_its_arguments_are_display_options() -> None:
    assert args_of("viewer_agent").model_dump() == {"markdown": True, "darkmode": False}


def test_other_arguments_are_an_error_at_deploy() -> None:
    with pytest.raises(ValidationError):
        args_of("viewer_agent", page_mode="chat")

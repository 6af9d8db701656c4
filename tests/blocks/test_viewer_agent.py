"""viewer_agent: declared, so that bundles may name it; it shows and never says anything."""

import pytest
from pydantic import ValidationError

from memrelay.blocks.registry import all_blocks
from tests.blocks.calls import args_of


def test_a_viewer_is_outside_of_the_cascade() -> None:
    assert all_blocks()["viewer_agent"].handle is None


def test_its_arguments_are_how_it_is_shown() -> None:
    assert args_of("viewer_agent").model_dump() == {"markdown": True, "darkmode": False}


def test_other_arguments_are_an_error_at_deploy() -> None:
    with pytest.raises(ValidationError):
        args_of("viewer_agent", page_mode="chat")

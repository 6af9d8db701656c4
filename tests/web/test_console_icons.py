"""The marks of kinds, blocks and states."""

from pathlib import Path

import pytest

from memrelay.blocks.registry import built_in_blocks
from memrelay.web.console.frame import ASSETS, make_templates
from memrelay.web.console.icons import GROUP_OF_BLOCK, MARKS, find_icon

TEMPLATES = Path(__file__).resolve().parents[2] / "memrelay" / "web" / "console" / "templates"
MAX_BYTES = 5000


def test_the_marks_are_one_small_file() -> None:
    assert len(ASSETS["icons.svg"].body) <= MAX_BYTES


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("note", "note"),
        ("memory.fact", "fact"),
        ("turn.archived", "turn"),
        ("memory_search", "recall"),
        ("webhook_send", "send"),
        ("delivered", "check"),
        ("<script>", "other"),
        ("", "other"),
    ],
)
def test_a_name_has_a_mark(name: str, mark: str) -> None:
    assert find_icon(name) == mark


def test_each_block_that_memrelay_brings_along_has_a_mark() -> None:
    assert set(GROUP_OF_BLOCK) == set(built_in_blocks())
    assert {find_icon(block) for block in GROUP_OF_BLOCK} <= MARKS - {"other"}


def test_a_mark_is_hidden_from_screen_readers_and_refers_to_the_sprite() -> None:
    macros = make_templates("/base").get_template("icons.html").module

    shown = str(macros.icon("fact"))

    assert 'aria-hidden="true"' in shown
    assert 'href="/base/static/icons.svg?v=' in shown
    assert shown.endswith('#fact"/></svg>')

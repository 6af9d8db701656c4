"""reference: the generated reference of the blocks."""

from enum import Enum
from typing import Any, Literal

from pydantic import BaseModel, Field

from memrelay.blocks.contract import Block, BlockArgs, Call
from memrelay.blocks.reference import section


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Rule(BaseModel):
    most: int = 1


class OursArgs(BlockArgs):
    color: Colour = Colour.RED
    """A color."""
    rule: Rule | None = None
    words: list[str] = Field(default_factory=list)
    anything: Any = None
    one: Literal["x"] = "x"
    maybe: bool | None = None
    needed: int | str


def ours(call: Call, args: OursArgs) -> None:
    """Publish nothing."""


def test_the_reference_has_a_line_for_every_type_of_argument() -> None:
    lines = section(Block("ours", OursArgs, ours)).splitlines()

    assert lines[:3] == [
        "### `ours`",
        "",
        "The generated reference of the blocks. Publish nothing.",
    ]
    assert lines[6:] == [
        "| `color` | `red` or `blue` | `red` | A color. |",
        "| `rule` | object |  |  |",
        "| `words` | list |  |  |",
        "| `anything` | anything |  |  |",
        "| `one` | `x` | `x` |  |",
        "| `maybe` | true or false |  |  |",
        "| `needed` | number or text |  | Required.  |",
    ]

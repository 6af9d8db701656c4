"""regex_filter: lets through what matches, or with `invert` what does not, under its own name."""

from functools import cached_property
from typing import Self

from pydantic import model_validator

from memrelay.blocks.contract import BlockArgs, Call, Selector
from memrelay.blocks.patterns import Flags, Pattern, Source, doubts_about
from memrelay.blocks.registry import block
from memrelay.bus.message import Message


class FilterArgs(BlockArgs):
    """What is let through."""

    pattern: Source
    """An RE2 pattern, searched for anywhere in the text."""
    flags: Flags = ""
    """Of `i`, `s` and `m`, as `regex_match` has them."""
    invert: bool = False
    """Lets through what does not match: `^/` with it keeps commands away from a model."""

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        assert self.selector is not None
        return self

    @cached_property
    def selector(self) -> Selector:
        """Only what passes is delivered."""
        return Selector(Pattern(self.pattern, self.flags), self.invert)

    def warnings(self) -> list[str]:
        """What is surely not meant."""
        return doubts_about(self.pattern)


@block("regex_filter", FilterArgs)
def regex_filter(call: Call, args: FilterArgs) -> Message:
    """Passes the message on unchanged, but for who says it."""
    return call.message.under(call.agent.name)

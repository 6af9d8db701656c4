"""regex_filter: pass on messages whose text matches, or does not match with `invert`."""

from functools import cached_property
from typing import Self

from pydantic import model_validator

from memrelay.blocks.contract import BlockArgs, Call, Selector
from memrelay.blocks.patterns import Flags, Pattern, Source, pattern_warnings
from memrelay.blocks.registry import block
from memrelay.bus.message import Message


class FilterArgs(BlockArgs):
    """The texts that pass."""

    pattern: Source
    """An RE2 pattern, searched anywhere in the text."""
    flags: Flags = ""
    """Any of `i`, `s` and `m`, as for `regex_match`."""
    invert: bool = False
    """Pass texts that do not match. With `^/` it keeps commands away from a model."""
    text: str = ""
    """A text to publish in place of the message, such as help for an unknown command. By default
    the message itself passes."""

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        assert self.selector is not None
        return self

    @cached_property
    def selector(self) -> Selector:
        return Selector(Pattern(self.pattern, self.flags), self.invert)

    def warnings(self) -> list[str]:
        return pattern_warnings(self.pattern)


@block("regex_filter", FilterArgs)
def regex_filter(call: Call, args: FilterArgs) -> Message:
    """Return the message unchanged, with the agent as its sender, or the text of `text`."""
    if args.text:
        return call.reply(args.text)
    return call.message.under(call.agent.name)

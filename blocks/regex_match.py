"""regex_match: picks a command out of what is said, and says its argument under the block's own
name."""

from functools import cached_property
from typing import Self

from pydantic import model_validator

from memrelay.blocks.contract import BlockArgs, Call, Selector
from memrelay.blocks.patterns import Flags, Pattern, Source, doubts_about
from memrelay.blocks.registry import block
from memrelay.bus.message import Message


class MatchArgs(BlockArgs):
    """What is matched, and which part of it is said."""

    pattern: Source
    """An RE2 pattern, searched for anywhere in the text."""
    group: int | str | None = None
    """The number or name of the group that is said; by default 1 where the pattern has a group,
    else the whole match."""
    flags: Flags = ""
    """Of `i` (letters of either case), `s` (a dot matches line ends) and `m` (`^` and `$` match at
    line ends)."""

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        assert self.number >= 0
        return self

    @cached_property
    def compiled(self) -> Pattern:
        """The pattern on RE2."""
        return Pattern(self.pattern, self.flags)

    @cached_property
    def number(self) -> int:
        """The number of the group that is said."""
        default = 1 if self.compiled.groups else 0
        return default if self.group is None else self.compiled.group_number(self.group)

    @cached_property
    def selector(self) -> Selector:
        """Only what matches is delivered."""
        return Selector(self.compiled)

    def warnings(self) -> list[str]:
        """What is surely not meant."""
        return doubts_about(self.pattern)


@block("regex_match", MatchArgs)
def regex_match(call: Call, args: MatchArgs) -> Message | None:
    """Says what the group holds, "" where it took no part; says nothing without a match."""
    message = call.message
    captured = args.compiled.capture(message.text, args.number)
    return None if captured is None else call.reply(captured, message.type)

"""regex_match: publish a part of the text, such as the argument of a command."""

from functools import cached_property
from typing import Self

from pydantic import model_validator

from memrelay.blocks.contract import BlockArgs, Call, Selector
from memrelay.blocks.patterns import Flags, Pattern, Source, pattern_warnings
from memrelay.blocks.registry import block
from memrelay.bus.message import Message


class MatchArgs(BlockArgs):
    """The pattern, and the part of the match to publish."""

    pattern: Source
    """An RE2 pattern, searched anywhere in the text."""
    group: int | str | None = None
    """Number or name of the group to publish. The default is 1 if the pattern has a group,
    otherwise the whole match."""
    flags: Flags = ""
    """Any of `i` (ignore case), `s` (a dot matches line ends) and `m` (`^` and `$` match at line
    ends)."""

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        assert self.number >= 0
        return self

    @cached_property
    def compiled(self) -> Pattern:
        return Pattern(self.pattern, self.flags)

    @cached_property
    def number(self) -> int:
        """Return the number of the group to publish."""
        default = 1 if self.compiled.groups else 0
        return default if self.group is None else self.compiled.group_number(self.group)

    @cached_property
    def selector(self) -> Selector:
        return Selector(self.compiled)

    def warnings(self) -> list[str]:
        return pattern_warnings(self.pattern)


@block("regex_match", MatchArgs)
def regex_match(call: Call, args: MatchArgs) -> Message | None:
    """Return the text of the group, "" if the group is not part of the match. Without a match,
    publish nothing."""
    message = call.message
    captured = args.compiled.capture(message.text, args.number)
    return None if captured is None else call.reply(captured, message.type)

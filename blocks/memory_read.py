"""memory_read: lists records, oldest first (seed 000; `order`, `limit` and `offset` are ours)."""

from functools import cached_property
from typing import Literal

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import NO_MEMORY_ID, Count, ListingArgs
from memrelay.blocks.registry import block
from memrelay.blocks.templates import OutputTemplate
from memrelay.bus.message import Message
from memrelay.memory.operations.records_read import ReadInput, read
from memrelay.memory.sqlite.filters import Given

UNRANKED = (
    "output_template has {{score}}, which is 0.0 of every record here: memory_search alone ranks"
)


class ReadArgs(ListingArgs):
    """`limit` absent is all records; a result larger than a message is an error, never cut."""

    source: str = ""
    """Only records of this source."""
    order: Literal["asc", "desc"] = "asc"
    """Oldest first, or newest first."""
    limit: Count | None = None
    """How many records at most; by default all."""
    offset: Count = 0
    """How many are left out before the first."""

    def warnings(self) -> list[str]:
        """Nothing that is listed has a score."""
        unranked = "score" in OutputTemplate.tokens(self.output_template)
        return super().warnings() + [UNRANKED] * unranked

    @cached_property
    def every(self) -> tuple[dict[str, str], Literal["asc", "desc"], int | None, int, Given | None]:
        """What holds for every call, after how much may be read. Together, for the reason that
        NewRecordArgs has."""
        return (
            self.filters("kind", "scope", "source"),
            self.order,
            self.limit,
            self.offset,
            self.compiled_filter,
        )


@block("memory_read", ReadArgs)
def memory_read(call: Call, args: ReadArgs) -> Message:
    """Answers with an array of records, or with the template's text. What was said is ignored."""
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    return args.answer(call, read(call.tx, ReadInput(args.max_bytes(call), *args.every)))

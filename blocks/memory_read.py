"""memory_read: lists records, oldest first (seed 000; `order`, `limit` and `offset` are ours)."""
from typing import Literal

from blocks.contract import Call
from blocks.memory_args import NO_MEMORY_ID, Count, ListingArgs
from blocks.registry import block
from bus.message import Message
from memory.operations.records_read import ReadInput, read


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


@block("memory_read", ReadArgs)
def memory_read(call: Call, args: ReadArgs) -> Message:
    """Answers with an array of records, or with the template's text. What was said is ignored."""
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    wanted = ReadInput(args.max_bytes(call), args.filters("kind", "scope", "source"), args.order, args.limit, args.offset,
                       args.compiled_filter)
    return args.answer(call, read(call.tx, wanted))

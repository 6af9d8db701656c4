"""memory_read: list records, oldest first (seed 000; `order`, `limit` and `offset` are ours)."""

from functools import cached_property
from typing import Literal

from memrelay.blocks.contract import Call, DeferredCall
from memrelay.blocks.memory_args import (
    EXECUTE_PAST,
    NO_MEMORY_ID,
    READ_PAST,
    Count,
    ListingArgs,
    ReadPast,
)
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.engine.filter_sql import Given
from memrelay.memory.engine.models import load
from memrelay.memory.records.reading import ReadInput, read, read_fitting

UNRANKED = (
    "output_template has {{score}}, which is 0.0 for every record of memory_read: only "
    "memory_search ranks records"
)


class ReadArgs(ListingArgs):
    """Without `limit` the result has all records, or those that fit into a message."""

    source: str = ""
    """Only records of this source."""
    order: Literal["asc", "desc"] = "asc"
    """Oldest first, or newest first."""
    limit: Count | None = None
    """Maximum number of records. Without a limit, the result has the first records that fit into a
    message, and the envelope's field `left_out` counts the others. With a limit, a result longer
    than a message is an error."""
    offset: Count = 0
    """Number of records to skip."""

    def warnings(self) -> list[str]:
        """Warn about a template with a score, which listed records do not have."""
        is_unranked = self.template is not None and "score" in self.template.tokens
        return super().warnings() + [UNRANKED] * is_unranked

    @cached_property
    def read_options(
        self,
    ) -> tuple[dict[str, str], Literal["asc", "desc"], int | None, int, Given | None]:
        """Return the fields of ReadInput after `max_bytes`, as one tuple for speed."""
        return (
            self.filters("kind", "scope", "source"),
            self.order,
            self.limit,
            self.offset,
            self.compiled_filter,
        )


@block("memory_read", ReadArgs, deferred_call=EXECUTE_PAST)
def memory_read(call: Call, args: ReadArgs) -> Message | DeferredCall:
    """Return an array of records, or the text of the template. The text of the message is
    ignored."""
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    if args.as_of:
        return _read_past(call, args)
    request = ReadInput(args.max_bytes(call), *args.read_options)
    if request.limit is None:
        return args.answer_best(call, read_fitting(call.tx, request))
    return args.answer(call, read(call.tx, request))


def _read_past(call: Call, args: ReadArgs) -> Message | DeferredCall:
    given = {"order": args.order, "offset": args.offset} | args.filters("kind", "scope", "source")
    read_past: ReadPast = load(READ_PAST)
    return read_past(call, args, "records.list", given, args.limit)

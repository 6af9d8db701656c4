"""memory_read: list records, oldest first (seed 000; `order`, `limit` and `offset` are ours)."""

from functools import cached_property
from typing import Literal

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import NO_MEMORY_ID, Count, ListingArgs
from memrelay.blocks.registry import block
from memrelay.blocks.templates import OutputTemplate
from memrelay.bus.message import Message
from memrelay.memory.engine.filter_sql import Given
from memrelay.memory.records.reading import ReadInput, read

UNRANKED = (
    "output_template has {{score}}, which is 0.0 for every record of memory_read: only "
    "memory_search ranks records"
)


class ReadArgs(ListingArgs):
    """Without `limit` all records are returned. A result longer than a message is an error and is
    never truncated."""

    source: str = ""
    """Only records of this source."""
    order: Literal["asc", "desc"] = "asc"
    """Oldest first, or newest first."""
    limit: Count | None = None
    """Maximum number of records; all by default."""
    offset: Count = 0
    """Number of records to skip."""

    def warnings(self) -> list[str]:
        """Warn about a template with a score, which listed records do not have."""
        is_unranked = "score" in OutputTemplate.tokens(self.output_template)
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


@block("memory_read", ReadArgs)
def memory_read(call: Call, args: ReadArgs) -> Message:
    """Return an array of records, or the text of the template. The text of the message is
    ignored."""
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    return args.answer(call, read(call.tx, ReadInput(args.max_bytes(call), *args.read_options)))

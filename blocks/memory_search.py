"""memory_search: finds records by words, phrases and filters, best first (seed 000; `limit` and the syntax are ours)."""
from blocks.contract import Call
from blocks.memory_args import NO_MEMORY_ID, Count, ListingArgs, Tags
from blocks.registry import block
from bus.message import Message
from memory.operations.records_search import SearchInput, search


class SearchArgs(ListingArgs):
    """The filters `kind`, `scope` and `tags` (all of them) hold beside those of the text, and before `limit` counts."""

    tags: Tags = ()
    """Only records with all of these tags: a JSON array in a string, an array, or a comma list."""
    limit: Count | None = None
    """How many records at most; by default all that are found."""


@block("memory_search", SearchArgs)
def memory_search(call: Call, args: SearchArgs) -> Message:
    """Answers with an array of records by FTS5 relevance, or with the template's text; [] where nothing was asked."""
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    wanted = SearchInput(call.text, args.max_bytes(call), args.filters("kind", "scope"), args.tags, args.limit,
                         scored="score" in args.output_template)
    return args.answer(call, search(call.tx, wanted))

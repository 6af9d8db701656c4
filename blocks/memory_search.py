"""memory_search: finds records by words, phrases and filters, best first (seed 000; its syntax, limit and modes are ours)."""
from blocks.contract import Call, Transient
from blocks.memory_args import NO_MEMORY_ID, Count, ListingArgs, Tags
from blocks.registry import block
from bus.message import Message
from memory.errors import VectorAwaited
from memory.operations.records_search import DEFAULT_LANGUAGE, Mode, SearchInput, search
from memory.recall.languages import Language


class SearchArgs(ListingArgs):
    """The filters `kind`, `scope` and `tags` (all of them) hold beside those of the text, and before `limit` counts."""

    tags: Tags = ()
    """Only records with all of these tags: a JSON array in a string, an array, or a comma list."""
    limit: Count | None = None
    """How many records at most; by default all that are found, or the best ten where the mode is `hybrid` or `semantic`."""
    mode: Mode = "fts"
    """`fts` finds records that hold all words, as they are. `hybrid` finds those that hold any of them in any form, ranked by
    how much of the query they, their neighbours and their thread hold, and by how near they are to what it means; nothing,
    where the store knows too little of it. `semantic` goes by what is meant alone. These two have vectors made of the store."""
    language: Language = DEFAULT_LANGUAGE
    """Whose stems and stop words `hybrid` goes by; `none` for neither."""

    @property
    def embeds(self) -> bool:
        """Whether it goes by what is meant."""
        return self.mode != "fts"


@block("memory_search", SearchArgs)
def memory_search(call: Call, args: SearchArgs) -> Message:
    """Answers with an array of records by relevance, or with the template's text; [] where nothing was asked."""
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    wanted = SearchInput(call.text, args.max_bytes(call), args.filters("kind", "scope"), args.tags, args.limit,
                         scored="score" in args.output_template, mode=args.mode, language=args.language,
                         given=args.compiled_filter)
    try:
        return args.answer(call, search(call.tx, wanted))
    except VectorAwaited as awaited:   # an endpoint is not waited for inside a transaction: the message comes back
        raise Transient(str(awaited), awaited.after_s) from awaited

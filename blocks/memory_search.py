"""memory_search: finds records by words, phrases and filters, best first (seed 000; its syntax,
limit and modes are ours)."""

from typing import Self

from pydantic import model_validator

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import (
    DEFAULT_LANGUAGE,
    NO_MEMORY_ID,
    Count,
    Language,
    ListingArgs,
    Tags,
    put_off,
)
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.errors import VectorAwaited
from memrelay.memory.operations.records_search import Mode, SearchInput, search, search_explained
from memrelay.memory.search.query import HALF_LIFE_DAYS, WRONG_MODE, Boosts, Days, Weight


class SearchArgs(ListingArgs):
    """The filters `kind`, `scope` and `tags` (all of them) hold beside those of the text, and
    before `limit` counts."""

    tags: Tags = ()
    """Only records with all of these tags: a JSON array in a string, an array, or a comma list."""
    limit: Count | None = None
    """How many records at most; by default all that are found, or the best ten where the mode is
    `hybrid` or `semantic`."""
    mode: Mode = "fts"
    """`fts` finds records that hold all words, as they are. `hybrid` finds those that hold any of
    them in any form, ranked by
    how much of the query they, their neighbours and their thread hold, and by how near they are to
    what it means; nothing,
    where the store knows too little of it. `semantic` goes by what is meant alone. These two have
    vectors made of the store."""
    language: Language | None = None
    """Whose stems and stop words `hybrid` goes by; `none` for neither. By default what the bundle
    says of the store in
    `stores`, else English."""
    recency: Weight = 0.0
    """From 0 to 1: how much of its score a record loses by age at most; for `hybrid` and
    `semantic`."""
    recency_days: Days = HALF_LIFE_DAYS
    """After how many days half of that is lost."""
    importance: Weight = 0.0
    """From 0 to 1: how much a record loses whose `data.importance` is 0 and not 1; for `hybrid` and
    `semantic`."""
    explain: bool = False
    """Whether the answer tells how each record came to its score, or why there is none:
    `{"records", "explanation"}`. A
    template is filled as without it."""

    @property
    def embeds(self) -> bool:
        """Whether it goes by what is meant."""
        return self.mode != "fts"

    @model_validator(mode="after")
    def _boosts_go_with_the_mode(self) -> Self:
        if self.mode == "fts" and (self.recency or self.importance):
            raise ValueError(WRONG_MODE)
        return self

    def in_language(self, language: str) -> Self:
        """With the store's language, where none is given."""
        return self if self.language else self.model_copy(update={"language": language})


@block("memory_search", SearchArgs)
def memory_search(call: Call, args: SearchArgs) -> Message:
    """Answers with an array of records by relevance, or with the template's text; [] where nothing
    was asked."""
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    wanted = SearchInput(
        call.text,
        args.max_bytes(call),
        args.filters("kind", "scope"),
        args.tags,
        args.limit,
        mode=args.mode,
        language=args.language or DEFAULT_LANGUAGE,
        given=args.compiled_filter,
        boosts=Boosts(args.recency, args.recency_days, args.importance, call.now_ms),
    )
    try:
        if args.explain and not args.output_template:
            return args.answer(call, *search_explained(call.tx, wanted))
        return args.answer(call, search(call.tx, wanted))
    except VectorAwaited as awaited:
        raise put_off(awaited) from awaited

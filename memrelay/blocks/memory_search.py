"""memory_search: find records by words, phrases and filters, best first (seed 000; its syntax,
limit and modes are ours)."""

from functools import cached_property
from typing import Any, Self

from pydantic import model_validator

from memrelay.blocks.contract import Call, DeferredCall
from memrelay.blocks.memory_args import (
    DEFAULT_LANGUAGE,
    EXECUTE_PAST,
    NO_MEMORY_ID,
    READ_PAST,
    Count,
    Language,
    ListingArgs,
    ReadPast,
    Tags,
    find_timezone,
    retry_when_ready,
)
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.engine.filter_sql import Given
from memrelay.memory.engine.models import load
from memrelay.memory.errors import VectorPending
from memrelay.memory.operations import Read
from memrelay.memory.records.paging import MOST
from memrelay.memory.records.record import Record
from memrelay.memory.search.query import (
    HALF_LIFE_DAYS,
    NO_BOOSTS,
    WRONG_MODE,
    WRONG_RERANK,
    Boosts,
    Days,
    Rerank,
    Weight,
)
from memrelay.memory.search.search import Mode, SearchInput, search, search_best, search_explained

# Records of a ranked search of the past without a limit.
RANKED_LIMIT = 10


class SearchArgs(ListingArgs):
    """The filters `kind`, `scope` and `tags` apply in addition to the filters in the text, and
    before `limit`."""

    tags: Tags = ()
    """Only records with all of these tags: a JSON array in a string, an array, or a comma list."""
    limit: Count | None = None
    """Maximum number of records. The default is all in the mode `fts`, and ten in the modes
    `hybrid` and `semantic`. Without a limit, the result has the best records that fit into a
    message, and the envelope's field `left_out` counts the others. With a limit or `explain`, a
    result longer than a message is an error."""
    mode: Mode = "fts"
    """`fts` finds records that contain all words as written. `hybrid` finds records that contain
    some of the words in any form, or have a similar meaning. It ranks them by the part of the query
    that they, their neighbors and their thread contain, and returns nothing if the store knows too
    little of the query. `semantic` compares meanings only. `hybrid` and `semantic` make the worker
    compute vectors of the store."""
    language: Language | None = None
    """Language of the stems and stop words in `hybrid`; `none` for neither. The default is the
    store's language in `stores` of the bundle, otherwise English."""
    recency: Weight = 0.0
    """0 to 1: the largest part of its score that a record loses by age; for `hybrid` and
    `semantic`."""
    recency_days: Days = HALF_LIFE_DAYS
    """The half-life of half of that part, in days. The other half fades twelve times slower."""
    importance: Weight = 0.0
    """0 to 1: the part of its score that a record loses if its `data.importance` is 0 instead of 1;
    for `hybrid` and `semantic`."""
    rerank: Rerank | None = None
    """`model`: a cross-encoder rereads the best turns of conversations, in `hybrid`. That takes up
    to 0.5 s, and the worker needs the extra `rerank`."""
    explain: bool = False
    """Return `{"records", "explanation"}`, with the reason for each score or for an empty result.
    A template ignores it."""

    @property
    def embeds(self) -> bool:
        """Return whether the mode compares meanings."""
        return self.mode != "fts"

    @model_validator(mode="after")
    def _options_fit_the_mode(self) -> Self:
        if self.mode == "fts" and (self.recency or self.importance):
            raise ValueError(WRONG_MODE)
        if self.rerank and (self.mode != "hybrid" or self.recency or self.importance):
            raise ValueError(WRONG_RERANK)
        return self

    @cached_property
    def search_fields(
        self,
    ) -> tuple[dict[str, str], tuple[str, ...], int | None, Mode, str, Given | None]:
        """Return (filters, tags, limit, mode, language, compiled filter) of each search.

        A tuple for speed, as `record_fields`.
        """
        return (
            self.filters("kind", "scope"),
            self.tags,
            self.limit,
            self.mode,
            self.language or DEFAULT_LANGUAGE,
            self.compiled_filter,
        )

    def make_boosts(self, now_ms: int) -> Boosts:
        """Return the weights of a ranked search at a time, Unix ms."""
        return Boosts(self.recency, self.recency_days, self.importance, now_ms)

    def in_language(self, language: str) -> Self:
        """Return the arguments with the store's language, unless they have one."""
        return self if self.language else self.model_copy(update={"language": language})


@block("memory_search", SearchArgs, deferred_call=EXECUTE_PAST)
def memory_search(call: Call, args: SearchArgs) -> Message | DeferredCall:
    """Return an array of records, best first, or the text of the template. An empty text returns
    []."""
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    if args.as_of:
        return _search_past(call, args)
    filters, tags, limit, mode, language, given = args.search_fields
    query = SearchInput(
        call.text,
        args.max_bytes(call),
        filters,
        tags,
        limit,
        mode,
        language,
        NO_BOOSTS if mode == "fts" else args.make_boosts(call.now_ms),
        given,
        timezone=find_timezone(call) if call.message.vouched else call.agent.timezone,
        rerank=args.rerank,
    )
    try:
        if args.explain and not args.output_template:
            records, explanation = search_explained(call.tx, query)
            answer = args.answer(call, records, explanation)
        elif limit is None:
            best = search_best(call.tx, query)
            records, answer = best.records, args.answer_best(call, best)
        else:
            records = search(call.tx, query)
            answer = args.answer(call, records)
    except VectorPending as awaited:
        raise retry_when_ready(awaited) from awaited
    if call.reads is not None and query.query:
        call.reads.append(_make_read(args, query, records))
    return answer


def _search_past(call: Call, args: SearchArgs) -> Message | DeferredCall:
    if not call.text.strip():
        return args.answer(call, [])
    given: dict[str, Any] = {**args.filters("kind", "scope")}
    if args.mode != "fts":
        given |= {"recency": args.recency, "importance": args.importance, "rerank": args.rerank}
    given |= {"query": call.text, "tags": args.tags, "mode": args.mode, "language": args.language}
    given |= {"recency_days": args.recency_days, "timezone": find_timezone(call)}
    given["explain"] = args.explain and not args.output_template
    read_past: ReadPast = load(READ_PAST)
    limit = RANKED_LIMIT if args.limit is None and args.mode != "fts" else args.limit
    return read_past(call, args, "records.search", given, limit)


def _make_read(args: SearchArgs, query: SearchInput, records: list[Record]) -> Read:
    """Return the search for a receipt, as an input of records.search."""
    mode, language = query.mode, query.language
    given: dict[str, Any] = {
        "query": query.query,
        "limit": query.limit or min(max(len(records), 1), MOST),
        "mode": mode,
        "language": language,
        "timezone": query.timezone,
    }
    if query.rerank:
        given["rerank"] = query.rerank
    if query.filters:
        given |= query.filters
    if query.tags:
        given["tags"] = query.tags
    if args.filter is not None:
        given["filter"] = args.filter
    if query.boosts:
        given |= {
            "recency": args.recency,
            "recency_days": args.recency_days,
            "importance": args.importance,
        }
    found = [(record.guid, record.score) for record in records]
    return Read("records.search", given, found, mode, language)

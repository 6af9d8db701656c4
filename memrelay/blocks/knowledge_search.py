"""knowledge_search: find entries of named memories by meaning, best first (docs/memories.md)."""

from dataclasses import asdict, replace
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any

import orjson
from pydantic import BeforeValidator, Field

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import (
    DEFAULT_LANGUAGE,
    NO_MEMORY_ID,
    TEMPLATE_READS,
    NamedMemoryArgs,
    Tags,
    Template,
    find_timezone,
    retry_when_ready,
    within_message,
)
from memrelay.blocks.registry import block
from memrelay.blocks.templates import OutputTemplate
from memrelay.bus.message import Message
from memrelay.memory.errors import BadTags, VectorPending
from memrelay.memory.models.named_memories.knowledge import (
    MOST_CHARACTERS,
    Knowledge,
    KnowledgeResult,
    SearchKnowledge,
    search_knowledge,
)
from memrelay.memory.models.named_memories.memories import KIND
from memrelay.memory.models.named_memories.table import MemoryTable
from memrelay.memory.operations import Context, Read
from memrelay.memory.records import data as tag_lists
from memrelay.memory.records.ids import guid_of
from memrelay.memory.records.paging import MOST
from memrelay.memory.records.record import Record


def _parse_names(value: Any) -> tuple[str, ...]:
    try:
        return tag_lists.parse(value)
    except BadTags as error:
        raise ValueError(
            'memories are an array of ids or names like ["notes", "people"], or a comma list'
        ) from error


MemoryNames = Annotated[tuple[str, ...], Field(max_length=100)]
Names = Annotated[
    MemoryNames, BeforeValidator(_parse_names, json_schema_input_type=MemoryNames | str)
]


class KnowledgeArgs(NamedMemoryArgs):
    """The store holds the pipeline's named memories: `instances/${pipeline_uid}/memories`."""

    memories: Names = ()
    """Ids or names of memories: an array or a comma list. Without `memories` and `tags`, all
    memories are searched."""
    tags: Tags = ()
    """Also search memories with a tag that matches one of these; `*` is any text, `?` one
    character."""
    min_score: float = 0
    """Minimum score of an entry. Scores are 0 to 1."""
    limit: Annotated[int, Field(ge=0, le=MOST)] = 10
    """Maximum number of entries."""
    output_template: Template = ""
    """Formats each entry; the results are joined without a separator, as `text/plain`. `scope` is
    the name of the memory."""

    @cached_property
    def template(self) -> OutputTemplate | None:
        return OutputTemplate(self.output_template) if self.output_template else None

    @property
    def embeds(self) -> bool:
        """Return True: the search compares meanings."""
        return True


@block("knowledge_search", KnowledgeArgs)
def knowledge_search(call: Call, args: KnowledgeArgs) -> Message:
    """Return `{results, degraded, reason}`, or the text of the template. An empty text has no
    results."""
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    if len(call.text) > MOST_CHARACTERS:
        return call.error(
            f"the query has {len(call.text)} characters, more than {MOST_CHARACTERS}: shorten it"
        )
    max_bytes = call.limits.message_bytes * (1 if args.template is None else TEMPLATE_READS)
    context = Context(
        call.now_ms, call.agent.name, max_bytes, call.new_guid, timezone=find_timezone(call)
    )
    found = Knowledge((), False, "")
    if call.text.strip():
        given = _search_input(call, args)
        try:
            found = search_knowledge(call.tx, given, context)
        except VectorPending as awaited:
            raise retry_when_ready(awaited) from awaited
        if call.reads is not None:
            _note_read(call, replace(given, timezone=context.timezone), found)
    if args.template is None:
        return within_message(call, call.reply_json(found))
    return within_message(call, call.reply(args.template.render(map(_as_record, found.results))))


def _search_input(call: Call, args: KnowledgeArgs) -> SearchKnowledge:
    if not args.memories and not args.tags:
        return SearchKnowledge(call.text, None, None, (), args.min_score, args.limit)
    # A name may match several memories.
    requested = set(args.memories)
    memories = call.tx.table(MemoryTable).every()
    ids = tuple(one.id for one in memories if {one.id, one.name} & requested)
    return SearchKnowledge(call.text, ids, args.tags, (), args.min_score, args.limit)


def _note_read(call: Call, given: SearchKnowledge, found: Knowledge) -> None:
    """Note the search for a receipt."""
    assert call.reads is not None
    records = [(guid_of("me", call.tx.memory_id, one.entry_id), one.score) for one in found.results]
    call.reads.append(
        Read("knowledge.search", asdict(given) | {"language": DEFAULT_LANGUAGE}, records)
    )


def _as_record(result: KnowledgeResult) -> Record:
    """Return the result as a record, since the tokens of a template are fields of a record."""
    created_at, updated_at = [
        int(datetime.fromisoformat(at).timestamp() * 1000)
        for at in (result.created_at, result.updated_at)
    ]
    return Record(
        result.entry_id,
        result.memory_name,
        KIND,
        result.content,
        result.source,
        orjson.dumps(result.tags).decode(),
        created_at,
        updated_at,
        score=result.score or 0.0,
    )

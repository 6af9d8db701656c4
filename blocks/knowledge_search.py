"""knowledge_search: finds entries of named memories by what is meant, best first
(docs/memories.md)."""

from datetime import datetime
from functools import cached_property
from typing import Annotated, Any

import orjson
from pydantic import BeforeValidator, Field

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import (
    NO_MEMORY_ID,
    TEMPLATE_READS,
    NamedMemoryArgs,
    Tags,
    Template,
    put_off,
    within_message,
)
from memrelay.blocks.registry import block
from memrelay.blocks.templates import OutputTemplate
from memrelay.bus.message import Message
from memrelay.memory.errors import BadTags, VectorAwaited
from memrelay.memory.operation import Context
from memrelay.memory.operations.knowledge_search import (
    MOST,
    MOST_CHARACTERS,
    Knowledge,
    KnowledgeResult,
    SearchKnowledge,
    search_knowledge,
)
from memrelay.memory.records import tags as tag_lists
from memrelay.memory.records.memory_view import KIND
from memrelay.memory.records.record import Record


def _names(value: Any) -> tuple[str, ...]:
    """As tags are written, and told of by what they are."""
    try:
        return tag_lists.parse(value)
    except BadTags as error:
        raise ValueError(
            'memories are an array of ids or names like ["notes", "people"], or a comma list'
        ) from error


MemoryNames = Annotated[tuple[str, ...], Field(max_length=100)]
Names = Annotated[MemoryNames, BeforeValidator(_names, json_schema_input_type=MemoryNames | str)]


class KnowledgeArgs(NamedMemoryArgs):
    """The store is that of the pipeline's named memories: `instances/${pipeline_uid}/memories`."""

    memories: Names = ()
    """Ids or names of the memories to look in: an array, or a comma list. With neither these nor
    `tags`, all of them."""
    tags: Tags = ()
    """And memories with a tag that one of these fits; `*` is any text, `?` one character."""
    min_score: Annotated[float, Field(ge=0, le=1)] = 0
    """Only entries with at least this score, from 0 to 1."""
    limit: Annotated[int, Field(ge=0, le=MOST)] = 10
    """How many at most."""
    output_template: Template = ""
    """Applied to each entry, with nothing in between; the answer is then `text/plain`. `scope` is
    the memory's name."""

    @cached_property
    def template(self) -> OutputTemplate | None:
        """The template, compiled once."""
        return OutputTemplate(self.output_template) if self.output_template else None

    @property
    def embeds(self) -> bool:
        """It goes by what is meant."""
        return True


@block("knowledge_search", KnowledgeArgs)
def knowledge_search(call: Call, args: KnowledgeArgs) -> Message:
    """Answers with `{results, degraded, reason}`, or with the template's text; no results where
    nothing was asked."""
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    if len(call.text) > MOST_CHARACTERS:
        return call.error(
            f"a query has at most {MOST_CHARACTERS} characters, and this has {len(call.text)}: ask for less"
        )
    is_all = not args.memories and not args.tags
    ids = None if is_all else _ids(call, args.memories)
    wanted = SearchKnowledge(
        call.text, ids, None if is_all else args.tags, (), args.min_score, args.limit
    )
    most = call.limits.message_bytes * (1 if args.template is None else TEMPLATE_READS)
    context = Context(call.now_ms, call.agent.name, most, call.new_guid)
    try:
        found = (
            search_knowledge(call.tx, wanted, context)
            if call.text.strip()
            else Knowledge((), False, "")
        )
    except VectorAwaited as awaited:
        raise put_off(awaited) from awaited
    if args.template is None:
        return within_message(call, call.reply_json(found))
    return within_message(call, call.reply(args.template.render(map(_as_record, found.results))))


def _ids(call: Call, names: tuple[str, ...]) -> tuple[str, ...]:
    """The ids of memories that are named by id or by name; several may have one name."""
    wanted = set(names)
    return tuple(
        memory.id
        for memory in call.tx.memories.every()
        if memory.id in wanted or memory.name in wanted
    )


def _as_record(result: KnowledgeResult) -> Record:
    """For the template, whose tokens are a record's."""
    created, updated = [
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
        created,
        updated,
        score=result.score or 0.0,
    )

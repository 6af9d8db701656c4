"""What blocks on stores have in common: their arguments (seed 000, the tables "wf_webhook_args"),
and how they answer."""

import re
from functools import cached_property
from typing import Annotated, Any

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field

from memrelay.blocks.contract import BlockArgs, Call, Transient
from memrelay.blocks.templates import MAX_SOURCE, OutputTemplate
from memrelay.bus.message import Message
from memrelay.memory import memory_id as memory_ids
from memrelay.memory.errors import VectorAwaited
from memrelay.memory.filter.input import Filter
from memrelay.memory.operations.records_read import MOST_ESCAPED, too_large
from memrelay.memory.records import tags as tag_lists
from memrelay.memory.records.data import LARGEST, kept_json
from memrelay.memory.records.record import DEFAULT_KIND, Record
from memrelay.memory.sqlite.filters import Given, compiled
from memrelay.memory.text import languages


def _memory_id(value: str) -> str:
    return memory_ids.check(value) if value else ""


def _template(value: str) -> str:
    if value:
        OutputTemplate(value)
    return value


DEFAULT_LANGUAGE = languages.DEFAULT_LANGUAGE
Language = Annotated[str, AfterValidator(languages.check_language)]
MemoryId = Annotated[str, AfterValidator(_memory_id)]
Tags = Annotated[
    tuple[str, ...], BeforeValidator(tag_lists.parse, json_schema_input_type=tuple[str, ...] | str)
]
Template = Annotated[
    str, AfterValidator(_template), Field(json_schema_extra={"maxLength": MAX_SOURCE})
]
Count = Annotated[
    int, Field(ge=0), AfterValidator(lambda count: min(count, LARGEST))
]  # no store has more records

# how many messages' worth of records a template is applied to, since it may tell little of each
TEMPLATE_READS = 8
_NO_TAGS: list[str] = []
Seconds = Annotated[int, Field(ge=1, le=10**10)]
NO_MEMORY_ID = (
    'memory_id is missing: set it in wf_webhook_args, like "instances/${pipeline_uid}/memories"'
)
ELSEWHERE = (
    "the named memories of a pipeline are in instances/${pipeline_uid}/memories: what is in another store is not "
    "found by the console, the command line and HTTP"
)


def home_of(uid: str) -> str:
    """The store of a pipeline's named memories."""
    return f"instances/{uid}/memories"


class MemoryArgs(BlockArgs):
    """Arguments of a block that works on a store."""

    memory_id: MemoryId = ""
    """The path of the store below the memory root, like `instances/${pipeline_uid}/memories`.
    Needed."""

    @property
    def store(self) -> str:
        """The store at `memory_id`."""
        return self.memory_id

    def warnings(self) -> list[str]:
        """The block answers with an error each time."""
        return [] if self.memory_id else [NO_MEMORY_ID]

    def filters(self, *names: str) -> dict[str, str]:
        """Those of the arguments `names` that are set, as exact filters."""
        return {name: value for name in names if (value := getattr(self, name))}


class NamedMemoryArgs(MemoryArgs):
    """Arguments of a block that works on the pipeline's named memories."""

    def warnings(self) -> list[str]:
        """What is not in the pipeline's own store is out of reach for everybody else who asks for
        its named memories."""
        elsewhere = bool(self.memory_id) and not re.fullmatch(home_of("[^/]+"), self.memory_id)
        return super().warnings() + [ELSEWHERE] * elsewhere


class NewRecordArgs(MemoryArgs):
    """Arguments of a block that makes records."""

    scope: str = ""
    """The record's scope; by default the memory_id."""
    kind: str = ""
    """The record's kind; by default `observation`."""
    source: str = ""
    """The record's source; by default the name that the block publishes under."""
    tags: Tags = ()
    """Tags of a new record: a JSON array in a string, an array, or a comma list."""
    ttl_s: Seconds | None = None
    """After so many seconds a new record is gone; by default it stays."""

    @cached_property
    def every(self) -> tuple[str, str, str, tuple[str, ...], int]:
        """Of every record: scope, "" without a store; kind, source, tags, ms to stay, 0 for ever.

        Together, since to read an argument of a model costs ten times what it costs of a tuple.
        """
        scope = self.memory_id and (self.scope or self.memory_id)
        return scope, self.kind or DEFAULT_KIND, self.source, self.tags, 1000 * (self.ttl_s or 0)


class ListingArgs(MemoryArgs):
    """Arguments of a block that answers with records."""

    kind: str = ""
    """Only records of this kind."""
    scope: str = ""
    """Only records of this scope."""
    filter: Filter | None = None
    """Only records that pass this filter, an object as [filters.md](filters.md) has it."""
    output_template: Template = ""
    """Applied to each record, with nothing in between; the answer is then `text/plain`."""

    @cached_property
    def template(self) -> OutputTemplate | None:
        """The template, compiled once."""
        return OutputTemplate(self.output_template) if self.output_template else None

    @cached_property
    def compiled_filter(self) -> Given | None:
        """As SQL, made once."""
        return compiled(self.filter)

    def max_bytes(self, call: Call) -> int:
        """How much may be read for one answer."""
        return call.limits.message_bytes * (TEMPLATE_READS if self.output_template else 1)

    def answer(self, call: Call, records: list[Record], explanation: object = None) -> Message:
        """The records as a JSON array, by the template as text, or an object with an explanation.
        Raises ResultTooLarge."""
        if self.template is not None:
            said = call.reply(self.template.render(records))
        elif explanation is not None:
            said = call.reply_json(
                {"records": [as_object(record) for record in records], "explanation": explanation}
            )
        else:
            said = call.reply_json([as_object(record) for record in records])
        return within_message(call, said)


def within_message(call: Call, said: Message) -> Message:
    """The answer itself. Raises ResultTooLarge."""
    if len(said.text) * MOST_ESCAPED < call.limits.message_bytes // 2:
        return said  # far from the limit, however it is escaped
    envelope = msgspec.json.encode({"from": said.sender, "id": said.id, "args": said.args})
    if len(envelope) > call.limits.message_bytes:
        raise too_large(call.limits.message_bytes)
    return said


def put_off(awaited: VectorAwaited) -> Transient:
    """What to raise: an endpoint is not waited for inside a transaction, so the message comes back,
    as often as it takes."""
    return Transient(str(awaited), awaited.after_s, counts=False)


def as_object(record: Record) -> dict[str, Any]:
    """A record in the shape of the seed's schema."""
    guid, scope, kind, content, source, tags, created_at, updated_at, _, _ = (
        record  # at once, for there are many
    )
    return {
        "guid": guid,
        "scope": scope,
        "kind": kind,
        "content": content,
        "source": source,
        "tags": _NO_TAGS if tags == "[]" else kept_json(tags, guid),
        "created_at": created_at,
        "updated_at": updated_at,
    }

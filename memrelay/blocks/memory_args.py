"""Shared parts of the memory blocks: their arguments (seed 000, tables "wf_webhook_args") and their
results."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Annotated, Any

import msgspec
import orjson
from msgspec.structs import replace
from pydantic import AfterValidator, BeforeValidator, Field

from memrelay.blocks.contract import BlockArgs, Call, DeferredCall, Transient
from memrelay.blocks.json_values import OptionalExpression, Selection, make_selection
from memrelay.blocks.templates import MAX_OUTPUT, MAX_SOURCE, OutputTemplate
from memrelay.bus.message import JSON, Message
from memrelay.memory.engine import memory_id as memory_ids
from memrelay.memory.engine.filter_sql import Given, compiled
from memrelay.memory.engine.time_zones import check_zone
from memrelay.memory.engine.timestamps import CHANGE_NUMBER, malformed_as_of, parse_ms
from memrelay.memory.errors import PolicyStop, Refused, ResultTooLarge, VectorPending
from memrelay.memory.operations import Context
from memrelay.memory.records import data as tag_lists
from memrelay.memory.records.data import LARGEST, load_json
from memrelay.memory.records.filters import Filter
from memrelay.memory.records.kinds import reserved_fault
from memrelay.memory.records.paging import MOST_ESCAPED, too_large
from memrelay.memory.records.reading import Found
from memrelay.memory.records.record import DEFAULT_KIND, Record
from memrelay.memory.search.text import languages


def _check_memory_id(value: str) -> str:
    return memory_ids.check(value) if value else ""


def _refuse_closed(value: str) -> str:
    if memory_ids.is_closed(value):
        raise ValueError(f"{value} {CLOSED}")
    return value


def _check_kind(kind: str) -> str:
    if rule := reserved_fault(kind):
        raise ValueError(rule)
    return kind


def _check_as_of(value: str) -> str:
    if value and not CHANGE_NUMBER.fullmatch(value) and parse_ms(value) is None:
        raise ValueError(malformed_as_of(value))
    return value


def _check_template(value: str) -> str:
    if value:
        OutputTemplate(value)
    return value


# A wider form of `as_of` than the check accepts.
AS_OF_PATTERN = r"^(|n:[0-9]+|[0-9]+|[0-9]{4}-.+)$"
# Fields that `identify_user` sets in a message.
USER_ID, USER_CONTEXT = "user_id", "user_context"
DEFAULT_LANGUAGE = languages.DEFAULT_LANGUAGE
Language = Annotated[str, AfterValidator(languages.check_language)]
# A store with records of any model, and also the built-in store of the items.
AnyMemoryId = Annotated[str, AfterValidator(_check_memory_id)]
MemoryId = Annotated[AnyMemoryId, AfterValidator(_refuse_closed)]
AsOf = Annotated[
    str, AfterValidator(_check_as_of), Field(json_schema_extra={"pattern": AS_OF_PATTERN})
]
# The kind of records that a block writes.
NewKind = Annotated[str, AfterValidator(_check_kind)]
Tags = Annotated[
    tuple[str, ...], BeforeValidator(tag_lists.parse, json_schema_input_type=tuple[str, ...] | str)
]
Template = Annotated[
    str,
    AfterValidator(_check_template),
    Field(json_schema_extra={"maxLength": MAX_SOURCE, "format": "template"}),
]
# No store has more records than LARGEST.
Count = Annotated[int, Field(ge=0), AfterValidator(lambda count: min(count, LARGEST))]
Seconds = Annotated[int, Field(ge=1, le=10**10)]

# Messages' worth of records to read for a template, which may use little of each record.
TEMPLATE_READS = 8
# What reads the past, loaded with the first such read.
READ_PAST = "memrelay.blocks.past_reads:read_past"
EXECUTE_PAST = "memrelay.blocks.past_reads:execute"
ReadPast = Callable[..., Message | DeferredCall]
# For the field `left_out` of an envelope.
LEFT_OUT_BYTES = 40
# Names that clients and webhooks send if they know no person. They stand for no person, because
# people who share a name would share their memory.
ANONYMOUS = frozenset({"", "unknown", "anonymous", "manual_user", "webhook"})
NO_MEMORY_ID = (
    'memory_id is missing: set it in wf_webhook_args, like "instances/${pipeline_uid}/memories"'
)
OTHER_STORE = (
    "the named memories of a pipeline are in instances/${pipeline_uid}/memories: the console, the "
    "command line and HTTP do not find them in another store"
)
CLOSED = (
    "holds the items of agents with their access rights, which only the block memory_tool and the "
    'operations of items use; set another memory_id, like "instances/${pipeline_uid}/memories"'
)
_NO_TAGS: list[str] = []


class StoreArgs(BlockArgs):
    """Arguments of a block that has a store."""

    memory_id: AnyMemoryId = ""
    """Path of the store below the memory root."""

    @property
    def store(self) -> str:
        return self.memory_id


class MemoryArgs(StoreArgs):
    """Arguments of a block that reads or writes records."""

    memory_id: MemoryId = ""
    """Required. Path of the store below the memory root, like
    `instances/${pipeline_uid}/memories`."""

    def warnings(self) -> list[str]:
        """Warn if `memory_id` is missing: every call would fail."""
        return [] if self.memory_id else [NO_MEMORY_ID]

    def filters(self, *names: str) -> dict[str, str]:
        """Return the arguments `names` that are set, as exact filters."""
        return {name: value for name in names if (value := getattr(self, name))}


class NamedMemoryArgs(MemoryArgs):
    """Arguments of a block that uses the pipeline's named memories."""

    def warnings(self) -> list[str]:
        """Warn about another store than the pipeline's: other clients cannot reach it."""
        built_in = memory_ids.built_in_store("[^/]+")
        is_other = bool(self.memory_id) and not re.fullmatch(built_in, self.memory_id)
        return super().warnings() + [OTHER_STORE] * is_other


class NewRecordArgs(MemoryArgs):
    """Arguments of a block that creates records."""

    scope: str = ""
    """The record's scope; the memory_id by default."""
    kind: NewKind = ""
    """The record's kind; `observation` by default."""
    source: str = ""
    """The record's source; the sender name of the block's agent by default."""
    tags: Tags = ()
    """Tags of a new record: a JSON array in a string, an array, or a comma list."""
    ttl_s: Seconds | None = None
    """Seconds after which a new record expires. By default it never expires."""
    content: OptionalExpression = ""
    """JMESPath expression of the content over the JSON of the text, like `issue.title`. By default,
    and if it gives null, the content is the text. A text that is not JSON is `{"text": ...}`."""
    data: OptionalExpression = ""
    """JMESPath expression of the `data` of a new record, like `@` for all fields. Filters can use
    it. Fields that do not fit are left out; `data._left_out` has the reason."""

    @cached_property
    def selection(self) -> Selection | None:
        return make_selection(self.content, self.data)

    @cached_property
    def record_fields(self) -> tuple[str, str, str, tuple[str, ...], int, Selection | None]:
        """Return (scope, kind, source, tags, lifetime in ms, selection) of each record.

        The scope is "" without a store, the lifetime 0 without an end. Reading an attribute of a
        model takes ten times as long as reading an item of a tuple.
        """
        scope = self.memory_id and (self.scope or self.memory_id)
        return (
            scope,
            self.kind or DEFAULT_KIND,
            self.source,
            self.tags,
            1000 * (self.ttl_s or 0),
            self.selection,
        )


class ListingArgs(MemoryArgs):
    """Arguments of a block that returns records."""

    kind: str = ""
    """Only records of this kind."""
    scope: str = ""
    """Only records of this scope."""
    filter: Filter | None = None
    """Only records that match this filter, an object ([filters.md](filters.md))."""
    output_template: Template = ""
    """Formats each record; the results are joined without a separator, as `text/plain`."""
    as_of: AsOf = ""
    """Read the store as it was ([time.md](time.md)): a time in RFC 3339 or Unix ms, or a change as
    in `n:1204`. The read is a deferred call of at most 1,000 records."""

    @cached_property
    def template(self) -> OutputTemplate | None:
        return OutputTemplate(self.output_template) if self.output_template else None

    @cached_property
    def compiled_filter(self) -> Given | None:
        return compiled(self.filter)

    def max_bytes(self, call: Call) -> int:
        """Return the maximum number of bytes to read for one result."""
        return call.limits.message_bytes * (TEMPLATE_READS if self.output_template else 1)

    def answer(self, call: Call, records: list[Record], explanation: object = None) -> Message:
        """Return the records: as text of the template, or as JSON.

        The JSON is an array, or an object with the explanation. Raises ResultTooLarge.
        """
        if self.template is not None:
            return within_message(call, call.reply(self.template.render(records)))
        result: object = [as_object(record) for record in records]
        if explanation is not None:
            result = {"records": result, "explanation": explanation}
        return within_message(call, call.reply_json(result))

    def answer_best(self, call: Call, result: Found) -> Message:
        """Return the first of these records that fit into a message, and the number of the others.

        Raises ResultTooLarge if the first one alone is too long.
        """
        if not result.left_out:
            with suppress(ResultTooLarge):
                return self.answer(call, result.records)
        if self.template is None:
            texts = (orjson.dumps(as_object(record)).decode() for record in result.records)
            texts_that_fit = _take_fitting(call, texts, call.limits.message_bytes)
            reply = call.reply(f"[{','.join(texts_that_fit)}]", JSON)
        else:
            texts_that_fit = _take_fitting(
                call, self.template.render_each(result.records), MAX_OUTPUT
            )
            reply = call.reply("".join(texts_that_fit))
        left_out = result.left_out + len(result.records) - len(texts_that_fit)
        return within_message(call, replace(reply, left_out=left_out))


def _take_fitting(call: Call, texts: Iterable[str], max_bytes: int) -> list[str]:
    """Return the first texts that fit into a message as a list, and into `max_bytes`.

    Raises ResultTooLarge if the first one alone is too long.
    """
    envelope_bytes = _measure_envelope(replace(call.reply("", JSON), left_out=LARGEST))
    budget = min(max_bytes, call.limits.message_bytes - envelope_bytes)
    # A text in JSON has two quotes, and needs one comma. The list has two brackets.
    taken, size = list[str](), 1
    for text in texts:
        size += len(msgspec.json.encode(text)) - 1
        if size > budget:
            break
        taken.append(text)
    if not taken:
        raise too_large(call.limits.message_bytes)
    return taken


def within_message(call: Call, reply: Message) -> Message:
    """Return the reply. Raises ResultTooLarge if it is longer than a message."""
    most = call.limits.message_bytes
    fits_with_any_escaping = len(reply.text) * MOST_ESCAPED < most // 2
    if not fits_with_any_escaping and _measure_envelope(reply) > most:
        raise too_large(most)
    return reply


def _measure_envelope(message: Message) -> int:
    envelope = {"from": message.sender, "id": message.id, "args": message.args}
    return len(msgspec.json.encode(envelope)) + LEFT_OUT_BYTES * (message.left_out > 0)


def make_context(call: Call, now_ms: int | None = None) -> Context:
    """Return the context of a call for the functions of a model. By default it has its time."""
    now_ms = call.now_ms if now_ms is None else now_ms
    limits, agent = call.limits, call.agent
    return Context(now_ms, agent.name, limits.message_bytes, call.new_guid, timezone=agent.timezone)


@contextmanager
def naming_call(operation: str, make_input: Callable[[], dict[str, Any]]) -> Iterator[None]:
    """Name the operation that makes the writes in the block of code, and its input. A write that
    waits for review becomes this call.
    """
    try:
        yield
    except PolicyStop as stop:
        stop.call = operation, make_input()
        raise


def find_speaker(call: Call) -> str:
    """Return the name of the person who speaks, "" for a caller without a name."""
    speaker = call.message.speaker.strip()
    return "" if speaker in ANONYMOUS else speaker


def find_timezone(call: Call) -> str:
    """Return the zone of days in a query: that of the user whom `identify_user` found, which is
    `timezone` in the preferences, else the agent's.
    """
    if USER_ID not in call.message.vouched:
        return call.agent.timezone
    context = call.part.get(USER_CONTEXT)
    preferences = context.get("preferences") if isinstance(context, dict) else None
    zone = preferences.get("timezone") if isinstance(preferences, dict) else None
    try:
        return (check_zone(zone) if isinstance(zone, str) else "") or call.agent.timezone
    except Refused:
        return call.agent.timezone


def parse_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object in a text, None if it is any other text."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def retry_when_ready(awaited: VectorPending) -> Transient:
    """Return the exception to raise while an endpoint computes a vector.

    A transaction must not wait for an endpoint, so the message is retried until the vector is
    ready.
    """
    return Transient(str(awaited), awaited.after_s, counts=False)


def as_object(record: Record) -> dict[str, Any]:
    """Return a record in the shape of the seed's schema."""
    # One assignment is faster than eight attributes, and there are many records.
    guid, scope, kind, content, source, tags, created_at, updated_at, _, _ = record
    return {
        "guid": guid,
        "scope": scope,
        "kind": kind,
        "content": content,
        "source": source,
        "tags": _NO_TAGS if tags == "[]" else load_json(tags, guid),
        "created_at": created_at,
        "updated_at": updated_at,
    }

"""Turns: add, read and remove the messages of a conversation.

A turn is a record. Its `thread` is the conversation, and `seq` the position. `source` is the
speaker, `owner` the user, and `key` the id of the message. Search finds it by its `content`, the
text. `data` has the role, the agent and the item: the message as a framework has it. An item that
does not fit into `data` is the content, as JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import orjson
from pydantic import BeforeValidator, Field, ValidationError

from memrelay.memory.engine.filter_sql import Filters
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.engine.versions import State
from memrelay.memory.errors import Refused
from memrelay.memory.models.turns.table import TurnTable
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import as_text, checked, parse, parse_data, text_fault
from memrelay.memory.records.kinds import refuse_reserved
from memrelay.memory.records.paging import MOST, Limit, take_page
from memrelay.memory.records.record import RecordExtras
from memrelay.memory.records.view import (
    MAX_NAME_CHARACTERS,
    EndOrNull,
    GivenName,
    NameOrNull,
    Tags,
    end_ms,
    none_is_empty,
    time_ms,
)
from memrelay.memory.records.writing import Seq, WriteInput, write

KIND = "turn"
USER, ASSISTANT = "user", "assistant"
# The conversation of a call that names neither a thread nor a user.
DEFAULT_THREAD = "default"
MAX_THREAD = 512
# The fields of `data`. CONTENT_IS_ITEM: the content is the item as JSON. CONTENT_IS_BOTH: it is an
# object with the text and the item.
ROLE, AGENT, ITEM, CONTENT_IS_ITEM = "role", "agent", "item", "content_is_item"
TEXT, CONTENT_IS_BOTH = "content", "content_is_both"
FIELDS = frozenset(("role", "content", "name", "id", "at", ITEM))
# Values that orjson would convert, so that they would be read back as others.
STRICT = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
STRICT |= orjson.OPT_PASSTHROUGH_SUBCLASS


ThreadName = Annotated[str, Field(max_length=MAX_THREAD)]
Thread = Annotated[
    ThreadName, BeforeValidator(none_is_empty, json_schema_input_type=ThreadName | None)
]
Messages = Annotated[tuple[dict[str, Any], ...], Field(min_length=1, max_length=MOST)]


@dataclass(frozen=True, slots=True)
class AddTurns:
    """The messages, and the conversation to which they belong."""

    messages: Messages
    """The messages in order: objects with `role` (by default `user`) and `content`, a text or a
    list of parts with texts. Optional: `name` (the speaker), `id`, `at` (its time), and `item` (any
    JSON, returned unchanged). A message with other fields, or with a list, is itself the item."""
    thread: Thread = ""
    """The conversation; by default the user, or `default`."""
    user: NameOrNull = ""
    """The user whose memory it is."""
    agent: NameOrNull = ""
    """The agent that talks with the user."""
    kind: GivenName = KIND
    """The kind of record."""
    tags: Tags = ()
    """Tags for filters."""
    expires_at: EndOrNull = ""
    """The time at which the turns expire; by default never."""
    replace: bool = False
    """Whether the messages replace those of the conversation and user."""


@dataclass(frozen=True, slots=True)
class TurnsAdded:
    """The guids of the messages, and how many are new."""

    thread: str
    """The conversation."""
    added: int
    """How many turns are new."""
    skipped: int
    """How many messages were there before, by their `id`."""
    guids: tuple[str, ...]
    """The guids of all messages, in their order."""


class _Message(NamedTuple):
    """A message, checked. `at` is Unix ms, None for now."""

    role: str
    content: str
    name: str
    id: str
    at: int | None
    item: Any


@operation("turns.add", access="write", mutates=True)
def add(tx: Transaction, request: AddTurns, context: Context) -> TurnsAdded:
    """Add messages to the end of a conversation, all or none.

    A message whose `id` is among the last 1,000 turns of the conversation and user is skipped, so a
    repeated call adds nothing twice. With `replace`, all turns are deleted before, in the same
    transaction; records.restore brings them back.

    Raises Refused: when a message is invalid, the expiry time is invalid or past, or the kind is
    reserved.
    """
    expires_at = end_ms(request.expires_at, context.now_ms)
    messages = [_check(one, f"messages.{n}") for n, one in enumerate(request.messages)]
    arranged = [_arrange(one, request.agent) for one in messages]
    thread, equal = _find_place(request)
    if request.replace:
        tx.table(TurnTable).delete_thread(thread, equal)
    has_ids = any(one.id for one in messages)
    known = tx.table(TurnTable).known_ids(thread, equal) if has_ids else {}
    guids, added = [], 0
    for one, (content, data) in zip(messages, arranged, strict=True):
        guid = known.get(one.id) if one.id else None
        if guid is None:
            record = WriteInput(
                context.new_guid(),
                tx.memory_id,
                request.kind,
                content,
                one.name or _name_speaker(one.role, request),
                parse(request.tags),
                context.now_ms if one.at is None else min(one.at, context.now_ms),
                thread,
                expires_at=expires_at,
                extras=RecordExtras(one.id or None, request.user or None, as_text(data)),
            )
            guid = write(tx, record)
            added += 1
            if one.id:
                known[one.id] = guid
        guids.append(guid)
    return TurnsAdded(thread, added, len(messages) - added, tuple(guids))


def _find_place(request: "AddTurns | ListTurns | PopTurns | ClearTurns") -> tuple[str, Filters]:
    """Return the thread of a call, and the values of its turns. Raises Refused."""
    thread = request.thread or request.user or DEFAULT_THREAD
    return thread, _make_filters(request.kind, request.user)


def _make_filters(kind: str, user: str) -> Filters:
    """Return the values of turns of a kind and a user. Raises Refused for a reserved kind."""
    refuse_reserved(kind)
    return {"kind": kind, "owner": user} if user else {"kind": kind}


def _name_speaker(role: str, request: AddTurns) -> str:
    if role == USER:
        return request.user or role
    return request.agent or role if role == ASSISTANT else role


def _check(message: Mapping[str, Any], place: str) -> _Message:
    """Return a message. Raises Refused with the place of what is wrong."""
    texts = {name: message.get(name) or "" for name in ("role", "name", "id", "at")}
    for name, value in texts.items():
        if not isinstance(value, str) or len(value) > MAX_NAME_CHARACTERS:
            raise Refused(
                f"`{place}.{name}` must be a text of at most {MAX_NAME_CHARACTERS} characters"
            )
        if fault := text_fault(value):
            raise Refused(f"`{place}.{name}`: {fault}")
    content = message.get("content")
    if not isinstance(content, str | list | None):
        raise Refused(f"`{place}.content` must be a text or a list of parts; put JSON into `item`")
    item = message.get(ITEM)
    if item is None and (isinstance(content, list) or message.keys() - FIELDS):
        item = dict(message)
    at = time_ms(f"{place}.at", texts["at"])
    text = read_text(content)
    if fault := text_fault(text):
        raise Refused(f"`{place}.content`: {fault}")
    if not text and item is None:
        raise Refused(f"`{place}` has neither a text in `content` nor an `item`; give one of them")
    return _Message(texts["role"] or USER, text, texts["name"], texts["id"], at, item)


def _arrange(message: _Message, agent: str) -> tuple[str, dict[str, Any]]:
    """Return the content and the data of the record of a message. Raises Refused."""
    data: dict[str, Any] = {ROLE: message.role}
    if agent:
        data[AGENT] = agent
    if message.item is None:
        return message.content, data
    try:
        as_json = orjson.dumps(message.item, option=STRICT).decode()
    except TypeError as error:
        raise Refused(f"an `item` must be a JSON value: {error}") from error
    if message.content:
        try:
            return message.content, checked({**data, ITEM: message.item})
        except ValidationError:  # too long or too deep
            pass
    if message.content in ("", _read_item_text(message.item)):
        return as_json, {**data, CONTENT_IS_ITEM: True}
    text = orjson.dumps(message.content).decode()
    return f'{{"{TEXT}":{text},"{ITEM}":{as_json}}}', {**data, CONTENT_IS_BOTH: True}


def _read_item_text(item: Any) -> str:
    return read_text(item.get("content")) if isinstance(item, dict) else ""


def read_text(content: Any) -> str:
    """Return the text of a message: its content, or the texts of the parts in it."""
    if isinstance(content, str):
        return content
    texts = []
    for part in content if isinstance(content, list) else ():
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            texts.append(text)
    return "\n".join(texts)


@dataclass(frozen=True, slots=True)
class ListTurns:
    """The conversation, and the page."""

    thread: Thread = ""
    """The conversation; by default the user, or `default`."""
    user: NameOrNull = ""
    """Only turns of this user."""
    limit: Limit = 100
    """The maximum number of turns. A page of long turns may have fewer."""
    before: Seq | None = None
    """Only turns before this position: the `before` of the newer page."""
    kind: GivenName = KIND
    """The kind of record."""


@dataclass(frozen=True, slots=True)
class TurnView:
    """A message of a conversation."""

    guid: str
    seq: int
    """The position in the conversation."""
    role: str
    content: str
    """The text."""
    name: str
    """The speaker."""
    id: str | None
    """The id that the message was added with."""
    item: Any
    """The message as its framework has it; null if it has none."""
    user: str | None
    agent: str | None
    at: Moment


@dataclass(frozen=True, slots=True)
class TurnPage:
    """The newest turns of a conversation, oldest first."""

    items: tuple[TurnView, ...]
    before: int | None
    """The `before` of the page with older turns; null if there are none."""


@operation("turns.list", access="read", mutates=False, takes_as_of=True)
def list_turns(tx: Transaction, request: ListTurns, context: Context) -> TurnPage:
    """Return the newest messages of a conversation in order. Older ones are on further pages."""
    thread, equal = _find_place(request)
    table = tx.table(TurnTable)
    stored = table.newest(thread, equal, request.limit + 1, request.before)
    views = (view_turn(one.state) for one in stored)
    page, has_more = take_page(views, request.limit, context.result_bytes)
    if has_more:
        # Turns at one position stay together, because the next page begins before it.
        last = [one for one in page if one.seq == page[-1].seq]
        if len(last) < len(page) and len(last) < table.count_at(thread, equal, page[-1].seq):
            page = page[: -len(last)]
    return TurnPage(tuple(reversed(page)), page[-1].seq if has_more else None)


def view_turn(state: State) -> TurnView:
    """Return a turn as the operations show it. Raises RecordDamaged."""
    data = parse_data(state.data, state.guid)
    content, item = state.content, data.get(ITEM)
    if data.get(CONTENT_IS_ITEM) is True or data.get(CONTENT_IS_BOTH) is True:
        content, item = _parse_content(content, is_both=data.get(CONTENT_IS_BOTH) is True)
    agent = data.get(AGENT)
    return TurnView(
        state.guid,
        state.seq or 0,
        str(data.get(ROLE) or USER),
        content,
        state.source,
        state.key,
        item,
        state.owner,
        agent if isinstance(agent, str) else None,
        format_time(state.created_at),
    )


def _parse_content(content: str, *, is_both: bool) -> tuple[str, Any]:
    """Return the text and the item that a content has as JSON; no item if it was changed since."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return content, None
    if not is_both:
        return _read_item_text(value), value
    if isinstance(value, dict) and isinstance(text := value.get(TEXT), str):
        return text, value.get(ITEM)
    return content, None


@dataclass(frozen=True, slots=True)
class PopTurns:
    """The conversation, and how many turns to remove."""

    thread: Thread = ""
    """The conversation; by default the user, or `default`."""
    user: NameOrNull = ""
    """Only turns of this user."""
    count: Limit = 1
    """How many turns to remove."""
    kind: GivenName = KIND
    """The kind of record."""


@dataclass(frozen=True, slots=True)
class PoppedTurns:
    """The removed turns, oldest first."""

    items: tuple[TurnView, ...]


@operation("turns.pop", access="delete", mutates=True)
def pop(tx: Transaction, request: PopTurns, context: Context) -> PoppedTurns:
    """Remove the newest messages of a conversation and return them. records.restore can undo it."""
    table = tx.table(TurnTable)
    thread, equal = _find_place(request)
    newest = list(table.newest(thread, equal, request.count))
    page, _ = take_page([view_turn(one.state) for one in newest], MOST, context.result_bytes)
    for stored in newest[: len(page)]:
        table.delete(stored)
    return PoppedTurns(tuple(reversed(page)))


@dataclass(frozen=True, slots=True)
class ClearTurns:
    """The conversation to delete."""

    thread: Thread = ""
    """The conversation; by default the user, or `default`."""
    user: NameOrNull = ""
    """Only turns of this user."""
    kind: GivenName = KIND
    """The kind of record."""


@dataclass(frozen=True, slots=True)
class TurnsDeleted:
    """The number of deleted turns."""

    deleted: int


@operation("turns.clear", access="delete", mutates=True)
def clear(tx: Transaction, request: ClearTurns, context: Context) -> TurnsDeleted:
    """Delete the messages of a conversation. records.restore can undo it for each."""
    thread, equal = _find_place(request)
    return TurnsDeleted(tx.table(TurnTable).delete_thread(thread, equal))


@dataclass(frozen=True, slots=True)
class ListThreads:
    """The conversations to list."""

    user: NameOrNull = ""
    """Only conversations with this user."""
    limit: Limit = 100
    """The maximum number."""
    after: Thread = ""
    """Only conversations whose name comes after this: the `after` of the page before."""
    kind: GivenName = KIND
    """The kind of record."""


@dataclass(frozen=True, slots=True)
class ThreadView:
    """A conversation."""

    thread: str
    user: str | None
    """The user of its newest turn."""
    agent: str | None
    """The agent of its newest turn."""
    first_at: Moment
    """The time of its first turn."""
    last_at: Moment
    """The time of its newest turn."""


@dataclass(frozen=True, slots=True)
class ThreadPage:
    """Conversations by name."""

    items: tuple[ThreadView, ...]
    after: str | None
    """The `after` of the next page; null on the last one. A page may be empty before it."""


@operation("turns.threads", access="read", mutates=False)
def list_threads(tx: Transaction, request: ListThreads, context: Context) -> ThreadPage:
    """Return the conversations of a store by name.

    A conversation is with a user who has one of its last 1,000 turns.
    """
    items: list[ThreadView] = []
    threads = tx.table(TurnTable).threads(request.after, _make_filters(request.kind, request.user))
    for looked_at, (name, summary) in enumerate(threads, 1):
        if summary is not None:
            view = view_turn(summary.newest)
            first_at = format_time(summary.first_at)
            items.append(ThreadView(name, view.user, view.agent, first_at, view.at))
        if len(items) == request.limit or looked_at == MOST:
            return ThreadPage(tuple(items), name)
    return ThreadPage(tuple(items), None)

"""Conversations: the names of their threads, and the messages that a chat shows.

There is one thread for each user, chat and workflow. A `:` in an id is encoded, so no two
conversations can have the same name. Messages are read from the values of checkpoints without
LangGraph, whose serializer writes a message as a msgpack extension with [module, class, fields,
method].
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import msgspec
import orjson
from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import LAST_MS, Moment, format_time, parse_ms
from memrelay.memory.errors import Refused
from memrelay.memory.models.agent_memory.checkpoint_table import (
    LATEST_ID,
    Checkpoint,
    CheckpointTable,
    unpack,
)
from memrelay.memory.models.agent_memory.checkpoints import CheckpointsDeleted, Name, Names
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.ids import uid_of_store
from memrelay.memory.records.paging import ByteBudget, Limit, take_within

# The channel of the messages in LangGraph's MessagesState.
MESSAGES = "messages"
MSGPACK = "msgpack"
# Bytes of a message besides its text.
MESSAGE_BYTES = 128
CHAT, USER = "chat", "user"


class ShownMessage(NamedTuple):
    """A message of a user or an assistant. `at` is Unix ms, None if it is not known."""

    role: str
    text: str
    at: int | None


@dataclass(frozen=True, slots=True)
class ReadHistory:
    """The conversation, and the page."""

    thread: Name = ""
    """The id of the thread; by default that of the user, chat and workflow."""
    user: Name = ""
    """The user, as `channel:id`; without a channel, the name of a speaker."""
    chat: Name = ""
    """The id of the chat; empty for a conversation without one."""
    workflow: Name = ""
    """The id of the workflow: by default the uid of the pipeline."""
    more_workflows: Names = ()
    """Further workflows. The conversation that changed last is returned."""
    agent: Name | None = None
    """The agent; null for the agent whose thread changed last."""
    limit: Limit = 10
    """The maximum number of messages."""
    before: Annotated[str, Field(max_length=40)] = ""
    """Only messages before this time; messages without a time are kept."""


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message that a chat shows."""

    role: str
    """`user` or `assistant`."""
    text: str
    """Its text."""
    timestamp: Moment | None
    """Its time, or that of the message before it; null if none is known."""


@dataclass(frozen=True, slots=True)
class History:
    """The newest messages, in order."""

    messages: tuple[MessageView, ...]
    thread_id: str
    """The id of the thread."""
    has_more: bool
    """Whether there are earlier messages."""


@operation("conversations.history", access="read", mutates=False, store="memories", any_store=True)
def history(tx: Transaction, request: ReadHistory, context: Context) -> History:
    """Return the newest messages of a conversation, without prompts and results of tools.

    Raises Refused: when the conversation is not named, or `before` is no time.
    """
    until = parse_ms(request.before) if request.before else None
    if request.before and until is None:
        raise Refused(
            "Invalid 'before' datetime format; use ISO 8601, such as 2026-11-22T05:00:00Z"
        )
    threads = _list_threads(tx, request)
    table = tx.table(CheckpointTable)
    newest = newest_checkpoint(table, threads, request.agent)
    if newest is None:
        return History((), threads[0][0], False)
    shown = [
        one
        for one in shown_messages(_values(table, newest))
        if until is None or one.at is None or one.at < until
    ]
    budget = ByteBudget[ShownMessage](
        context.result_bytes, lambda message: len(message.text.encode()) + MESSAGE_BYTES
    )
    page, has_more = take_within(reversed(shown), budget, request.limit)
    views = (
        MessageView(one.role, one.text, None if one.at is None else format_time(one.at))
        for one in reversed(page)
    )
    return History(tuple(views), newest.thread, has_more)


def _list_threads(tx: Transaction, request: "ReadHistory | ClearConversation") -> list[list[str]]:
    """Return the possible names of the thread in each workflow. Raises Refused."""
    workflows = (request.workflow or uid_of_store(tx.memory_id), *request.more_workflows)
    return thread_names(request.thread, request.user, request.chat, workflows)


def newest_checkpoint(
    table: CheckpointTable, threads: Iterable[Iterable[str]], agent: str | None
) -> Checkpoint | None:
    """Return the newest checkpoint of several conversations. None stands for all agents.

    A conversation is the first of its possible threads that has a checkpoint.
    """
    agents = table.agents() if agent is None else [agent]
    newest: list[Checkpoint] = []
    for names in threads:
        for name in names:
            latest = [table.find(agent, name, "", LATEST_ID) for agent in agents]
            if existing := [one for one in latest if one is not None]:
                newest += existing
                break
    return max(newest, key=lambda one: one.id, default=None)


def _values(table: CheckpointTable, one: Checkpoint) -> Iterator[Any]:
    """Yield the decoded values of the channel with messages."""
    at = 0
    for name, type_, items in orjson.loads(one.channels):
        count = 1 if items is None else items
        if name == MESSAGES and type_ == MSGPACK:
            decoded = [decode_value(unpack(part)) for part in table.values(one, at, count)]
            messages = decoded[0] if items is None else decoded
            yield from messages if isinstance(messages, list) else ()
        at += count


@dataclass(frozen=True, slots=True)
class ClearConversation:
    """The conversation to delete."""

    thread: Name = ""
    """The id of the thread; by default that of the user, chat and workflow."""
    user: Name = ""
    """The user, as `channel:id`; without a channel, the name of a speaker."""
    chat: Name = ""
    """The id of the chat; empty for a conversation without one."""
    workflow: Name = ""
    """The id of the workflow: by default the uid of the pipeline."""
    more_workflows: Names = ()
    """Further workflows. The conversations of all of them are deleted."""
    agent: Name | None = None
    """Only that of this agent; null for all."""


@operation("conversations.clear", access="delete", mutates=True, store="memories", any_store=True)
def clear(tx: Transaction, request: ClearConversation, context: Context) -> CheckpointsDeleted:
    """Delete the checkpoints of a conversation. An unknown conversation is ignored.

    Raises Refused: when the conversation is not named.
    """
    table, threads = tx.table(CheckpointTable), _list_threads(tx, request)
    agents = table.agents() if request.agent is None else [request.agent]
    names = [name for possible in threads for name in possible]
    deleted = sum(table.delete_thread(agent, name) for agent in agents for name in names)
    return CheckpointsDeleted(deleted)


def thread_names(thread: str, user: str, chat: str, workflows: Iterable[str]) -> list[list[str]]:
    """Return the possible names of a thread in each workflow, the preferred one first.

    A user without a channel is a speaker, or a user that a trusted client named. Raises Refused:
    neither a thread nor a user is given.
    """
    if thread:
        return [[thread]]
    if not user:
        raise Refused("name the conversation by `thread`, or by `user`")
    users = [user] if ":" in user else [user_of_speaker(user), user]
    return [[thread_name(one, chat, workflow) for one in users] for workflow in workflows]


def user_of_speaker(name: str) -> str:
    """Return the user who speaks as `name` and has no other identity."""
    return f"{CHAT}:{name}"


def thread_name(user: str, chat: str, workflow: str) -> str:
    """Return the thread of a user, `channel:id`, in a chat of a workflow. `chat` may be "".

    A user without a channel, which a trusted client names, has the channel `user`.
    """
    channel, colon, ident = user.partition(":")
    parts = (channel, ident) if colon else (USER, user)
    return ":".join(_encode(part) for part in (*parts, *([chat] if chat else []), workflow))


def input_thread(execution: str, alias: str) -> str:
    """Return the thread of one input, for a message without a user."""
    return f"exec:{_encode(execution)}:{alias}"


def turn_thread(deferred_call_id: str) -> str:
    """Return the thread with the committed responses of one turn, which is deleted at its end."""
    return f"turn:{deferred_call_id}"


def _encode(part: str) -> str:
    return part.replace("%", "%25").replace(":", "%3A")


def delete_user_threads(table: CheckpointTable, user: str) -> int:
    """Delete all threads of a user, `channel:id`. Return how many checkpoints they had."""
    start = thread_name(user, "", "")
    deleted = 0
    for agent in table.agents():
        threads = [thread for thread in table.threads(agent) if thread.startswith(start)]
        deleted += sum(table.delete_thread(agent, thread) for thread in threads)
    return deleted


# Extensions with a class: the fields are at this place.
FIELDS = 2
DELTA_SNAPSHOT = 7
ROLES = {
    "human": "user",
    "HumanMessageChunk": "user",
    "user": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "assistant": "assistant",
}
# Messages that an agent adds: the repeated system prompt, and the summary of old turns.
HIDDEN = frozenset({"system_prompt_fallback", "conversation_summary"})
# Numbers from here on are milliseconds, lower ones are seconds.
FIRST_MS = 10**11


def shown_messages(values: Iterable[Any]) -> Iterator[ShownMessage]:
    """Yield the messages that a chat shows: of users, and of assistants with a text.

    A message without a time has the time of the one before it.
    """
    last: int | None = None
    for value in values:
        if not isinstance(value, dict) or value.get("id") in HIDDEN:
            continue
        role = ROLES.get(str(value.get("type") or value.get("role")), "")
        text = read_text(value.get("content"))
        if role and (text or role == "user"):
            time = _find_time(value)
            last = last if time is None else time
            yield ShownMessage(role, text, last)


def read_text(content: Any) -> str:
    """Return the text of a message, whose content may be a list of blocks."""
    if isinstance(content, str):
        return content
    texts = []
    for block in content if isinstance(content, list) else ():
        text = block.get("text", "") if isinstance(block, dict) else block
        if isinstance(text, str):
            texts.append(text)
    return "".join(texts)


def _find_time(message: dict[str, Any]) -> int | None:
    for name, key in (("additional_kwargs", "timestamp"), ("response_metadata", "created")):
        fields = message.get(name)
        value = fields.get(key) if isinstance(fields, dict) else None
        if (time := _to_ms(value)) is not None:
            return time
    return None


def _to_ms(value: Any) -> int | None:
    if isinstance(value, str):
        # Some programs write both an offset and a Z.
        return parse_ms(value.removesuffix("Z") if "+" in value else value)
    if type(value) in (int, float) and 0 <= value <= LAST_MS:
        return int(value if value >= FIRST_MS else value * 1000)
    return None


def is_of_user(stored: bytes) -> bool:
    """Return whether a stored value is a message of a user, which begins a turn."""
    message = _decode_message(stored)
    return ROLES.get(str(message.get("type") or message.get("role"))) == "user"


def calls_in(stored: bytes) -> set[str]:
    """Return the ids of the tool calls in a stored message, or of the call that it answers."""
    message = _decode_message(stored)
    calls = message.get("tool_calls")
    named = calls if isinstance(calls, list) else []
    idents = [one.get("id") for one in named if isinstance(one, dict)]
    return {one for one in (*idents, message.get("tool_call_id")) if isinstance(one, str)}


def _decode_message(stored: bytes) -> dict[str, Any]:
    try:
        message = decode_value(unpack(stored))
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def decode_value(data: bytes) -> Any:
    """Return a serialized value, with the fields of objects as dictionaries. None if it is
    damaged.
    """
    try:
        return msgspec.msgpack.decode(data, ext_hook=_decode_extension)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _decode_extension(code: int, data: memoryview) -> Any:
    value = msgspec.msgpack.decode(data, ext_hook=_decode_extension)
    if code == DELTA_SNAPSHOT:
        return value
    is_object = isinstance(value, list) and len(value) > FIELDS
    return value[FIELDS] if is_object else None

"""Names of conversations: one thread for each user, chat and workflow.

A `:` in an id is encoded, so no two conversations can have the same name.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time, parse_ms
from memrelay.memory.errors import Refused
from memrelay.memory.models.agent_memory.checkpoint_table import (
    LATEST_ID,
    Checkpoint,
    CheckpointTable,
    unpack,
)
from memrelay.memory.models.agent_memory.checkpoints import CheckpointsDeleted, Name, Names
from memrelay.memory.models.agent_memory.messages import (
    MSGPACK,
    ShownMessage,
    decode_value,
    shown_messages,
)
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.ids import uid_of_store

# The channel of the messages in LangGraph's MessagesState.
MESSAGES = "messages"
MOST = 1000
# Bytes of a message besides its text.
MESSAGE_BYTES = 128


CHAT, USER = "chat", "user"


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


def turn_thread(errand_id: str) -> str:
    """Return the thread with the committed responses of one turn, which is deleted at its end."""
    return f"turn:{errand_id}"


def _encode(part: str) -> str:
    return part.replace("%", "%25").replace(":", "%3A")


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


def delete_user_threads(table: CheckpointTable, user: str) -> int:
    """Delete all threads of a user, `channel:id`. Return how many checkpoints they had."""
    start = thread_name(user, "", "")
    return sum(
        table.delete_thread(agent, thread)
        for agent in table.agents()
        for thread in table.threads(agent)
        if thread.startswith(start)
    )


def newest_checkpoint(
    table: CheckpointTable, threads: Iterable[Iterable[str]], agent: str | None
) -> Checkpoint | None:
    """Return the newest checkpoint of several conversations. None stands for all agents.

    A conversation is the first of its possible threads that has a checkpoint.
    """
    agents = table.agents() if agent is None else [agent]
    newest = [
        found
        for names in threads
        if (found := next(filter(None, (_newest(table, name, agents) for name in names)), None))
    ]
    return max(newest, key=lambda one: one.id, default=None)


def _newest(table: CheckpointTable, thread: str, agents: Iterable[str]) -> Checkpoint | None:
    found = [table.find(agent, thread, "", LATEST_ID) for agent in agents]
    existing = [one for one in found if one is not None]
    return max(existing, key=lambda one: one.id, default=None)


def messages_of(table: CheckpointTable, one: Checkpoint) -> list[ShownMessage]:
    """Return the messages that a chat shows, the oldest first. Raises RecordDamaged."""
    return list(shown_messages(_values(table, one)))


def _values(table: CheckpointTable, one: Checkpoint) -> Iterator[Any]:
    """Yield the decoded values of the channel with messages."""
    at = 0
    for name, type_, items in orjson.loads(one.channels):
        count = 1 if items is None else items
        if name == MESSAGES and type_ == MSGPACK:
            decoded = [decode_value(unpack(part)) for part in table.values(one, at, count)]
            whole = decoded[0] if items is None else decoded
            yield from whole if isinstance(whole, list) else ()
        at += count


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
    limit: Annotated[int, Field(ge=1, le=MOST)] = 10
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


@operation("conversations.history", access="read", mutates=False, home="memories", any_store=True)
def history(tx: Transaction, wanted: ReadHistory, context: Context) -> History:
    """Return the newest messages of a conversation, without prompts and results of tools.

    Raises Refused: when the conversation is not named, or `before` is no time.
    """
    until = parse_ms(wanted.before) if wanted.before else None
    if wanted.before and until is None:
        raise Refused(
            "Invalid 'before' datetime format; use ISO 8601, such as 2026-11-22T05:00:00Z"
        )
    workflows = (wanted.workflow or uid_of_store(tx.memory_id), *wanted.more_workflows)
    threads = thread_names(wanted.thread, wanted.user, wanted.chat, workflows)
    found = newest_checkpoint(tx.table(CheckpointTable), threads, wanted.agent)
    if found is None:
        return History((), threads[0][0], False)
    shown = [
        one
        for one in messages_of(tx.table(CheckpointTable), found)
        if until is None or one.at is None or one.at < until
    ]
    page = _fitting(shown[-wanted.limit :], context.result_bytes)
    return History(tuple(map(_view, page)), found.thread, len(page) < len(shown))


def _fitting(messages: list[ShownMessage], room: int) -> list[ShownMessage]:
    """Return the newest messages that fit into that many bytes, at least one."""
    for index in range(len(messages) - 1, -1, -1):
        room -= len(messages[index].text.encode()) + MESSAGE_BYTES
        if room < 0:
            return messages[min(index + 1, len(messages) - 1) :]
    return messages


def _view(one: ShownMessage) -> MessageView:
    return MessageView(one.role, one.text, None if one.at is None else format_time(one.at))


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


@operation("conversations.clear", access="delete", mutates=True, home="memories", any_store=True)
def clear(tx: Transaction, given: ClearConversation, context: Context) -> CheckpointsDeleted:
    """Delete the checkpoints of a conversation. An unknown conversation is ignored.

    Raises Refused: when the conversation is not named.
    """
    table = tx.table(CheckpointTable)
    workflows = (given.workflow or uid_of_store(tx.memory_id), *given.more_workflows)
    threads = thread_names(given.thread, given.user, given.chat, workflows)
    agents = table.agents() if given.agent is None else [given.agent]
    return CheckpointsDeleted(
        sum(
            table.delete_thread(agent, name)
            for agent in agents
            for names in threads
            for name in names
        )
    )

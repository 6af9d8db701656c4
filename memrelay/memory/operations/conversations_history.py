"""conversations.history: returns the messages of a conversation."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.agents.checkpoint_input import Name, Names
from memrelay.memory.agents.conversations import messages_of, newest_checkpoint, thread_names
from memrelay.memory.agents.messages import ShownMessage
from memrelay.memory.errors import Refused
from memrelay.memory.operation import Context, operation
from memrelay.memory.records.ids import uid_of_store
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.timestamps import Moment, format_time, parse_ms

MOST = 1000
# Bytes of a message besides its text.
MESSAGE_BYTES = 128


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
    found = newest_checkpoint(tx.checkpoints, threads, wanted.agent)
    if found is None:
        return History((), threads[0][0], False)
    shown = [
        one
        for one in messages_of(tx.checkpoints, found)
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

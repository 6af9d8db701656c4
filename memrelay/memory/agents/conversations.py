"""Conversations: the messages in the newest checkpoint of a thread."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from memrelay.memory.agents.checkpoint_parts import unpack
from memrelay.memory.agents.checkpoints import LATEST_ID, Checkpoint, CheckpointTable
from memrelay.memory.agents.messages import MSGPACK, ShownMessage, decode_value, shown_messages
from memrelay.memory.agents.threads import thread_name, user_of_speaker
from memrelay.memory.errors import Refused

# The channel of the messages in LangGraph's MessagesState.
MESSAGES = "messages"


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

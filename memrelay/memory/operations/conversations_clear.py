"""conversations.clear: deletes a conversation."""

from dataclasses import dataclass

from memrelay.memory.agents.checkpoint_input import Name, Names
from memrelay.memory.agents.conversations import thread_names
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.checkpoints_delete import CheckpointsDeleted
from memrelay.memory.records.ids import uid_of_store
from memrelay.memory.sqlite.store import Transaction


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
    table = tx.checkpoints
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

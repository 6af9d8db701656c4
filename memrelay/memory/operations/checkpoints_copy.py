"""checkpoints.copy: copies a thread."""

from dataclasses import dataclass

from memrelay.memory.agents.checkpoint_input import GivenName, Name
from memrelay.memory.errors import Refused
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class CopyThread:
    """The thread to copy."""

    source: GivenName
    """The thread to read."""
    target: GivenName
    """The thread that gets the checkpoints. Its own checkpoints stay."""
    agent: Name = ""
    """The agent of both threads."""


@dataclass(frozen=True, slots=True)
class ThreadCopied:
    """The result."""

    copied: int
    """The number of checkpoints that were copied."""


@operation("checkpoints.copy", access="write", mutates=True, home="memories", any_store=True)
def copy(tx: Transaction, given: CopyThread, context: Context) -> ThreadCopied:
    """Copy all checkpoints and writes of a thread into another thread.

    Raises Refused: when both are the same thread.
    """
    if given.source == given.target:
        raise Refused(f"thread {given.source!r} cannot be copied into itself; name another target")
    return ThreadCopied(tx.checkpoints.copy(given.agent, given.source, given.target))

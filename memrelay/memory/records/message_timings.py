"""When a worker ran a message: its batches with their blocks, and its deferred calls."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.operations import Context, operation


@dataclass(frozen=True, slots=True)
class ListTimings:
    """The message."""

    entry: Annotated[str, Field(min_length=3, max_length=64)]
    """The message, like `1780000000000-0`."""


@dataclass(frozen=True, slots=True)
class BlockTimingView:
    """One call of a block in a batch."""

    agent: str
    """The alias of the agent."""
    start_ms: float
    """Milliseconds since the begin of the batch."""
    took_ms: float


@dataclass(frozen=True, slots=True)
class BatchTimingView:
    """A batch that ran the message, or a later step of it. A retry has a further batch."""

    id: str
    """The message, or the id of its step."""
    inputs: int
    """How many inputs ran in the batch. They have one commit."""
    began_at_ms: float
    """When the batch began, Unix ms."""
    took_ms: float
    """The time of the whole batch with its commit."""
    commit_ms: float
    """The part for the commits of its stores."""
    published_ms: float | None
    """From the commit until the bus had the results; null if it does not have them yet."""
    blocks: tuple[BlockTimingView, ...]
    """The calls of blocks for this message, in order; empty for a batch of more than 4 inputs."""


@dataclass(frozen=True, slots=True)
class CallTimingView:
    """A request of a block to another service, or another call outside of a batch."""

    id: str
    """The id of the step that follows it."""
    agent: str
    """The alias of the agent."""
    block: str
    target: str
    """The host or model that it asked; empty if that is not known."""
    began_at_ms: float
    """When it began, Unix ms."""
    took_ms: float
    failed: bool
    """Whether it ended with an error. The worker may have repeated it."""


@dataclass(frozen=True, slots=True)
class MessageTimings:
    """The times of a message, of which a worker knows the latest. They end with its process."""

    batches: tuple[BatchTimingView, ...]
    """The batches, the first one first."""
    calls: tuple[CallTimingView, ...]
    """The deferred calls, in the order of their ends."""


@operation("message_timings.list", access="read", mutates=False, shows_ids_only=True)
def list_timings(tx: Transaction, request: ListTimings, context: Context) -> MessageTimings:
    """List when the worker ran a message: batches, blocks, commits and calls of services.

    Raises Refused: when no worker is asked.
    """
    timings: MessageTimings = context.timings(request.entry)
    return timings

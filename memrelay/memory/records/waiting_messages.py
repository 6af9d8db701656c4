"""Messages that wait because of their agent's `wf_flow`."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.paging import Limit


@dataclass(frozen=True, slots=True)
class ListWaiting:
    """The messages to list."""

    entry: Annotated[str, Field(max_length=64)] = ""
    """Only messages that this one led to, like `1780000000000-0`; by default all."""
    limit: Limit = 100
    """The maximum number of messages."""


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message that waits. It has no text."""

    id: str
    """Its id, with which the ids of its results begin."""
    entry: str
    """The message that it follows from."""
    pipeline: str
    """The uid of its pipeline. Several pipelines may share a store."""
    agent: str
    """The alias of the agent that waits for it."""
    wakes_at: Moment
    """When the agent's block is probably called. For a batch, that is at the latest; a batch that
    is complete does not wait, and one with a `rate` may wait longer."""


@dataclass(frozen=True, slots=True)
class WaitingList:
    """The messages in the order of their arrival."""

    items: tuple[WaitingMessage, ...]


@operation("waiting_messages.list", access="read", mutates=False, shows_ids_only=True)
def list_waiting(tx: Transaction, request: ListWaiting, context: Context) -> WaitingList:
    """List the messages of a store that wait because of their agent's `wf_flow`."""
    found = tx.pending.list_waiting_of(request.entry, request.limit)
    return WaitingList(
        tuple(
            WaitingMessage(
                one.id.partition("/")[2], one.root, one.pipeline, one.agent, format_time(one.due)
            )
            for one in found
        )
    )

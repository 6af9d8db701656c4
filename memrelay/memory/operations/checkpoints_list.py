"""checkpoints.list: lists checkpoints, the newest first."""

from dataclasses import dataclass, field
from typing import Annotated, Any

import orjson
from pydantic import Field

from memrelay.memory.agents.checkpoint_input import Name
from memrelay.memory.agents.checkpoints import Outline
from memrelay.memory.operation import Context, operation
from memrelay.memory.records.data import LARGEST
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.timestamps import Moment, format_time

MOST = 1000


@dataclass(frozen=True, slots=True)
class ListCheckpoints:
    """The checkpoints to list, and the page."""

    thread: Name | None = None
    """Only this thread; null for all."""
    agent: Name | None = None
    """Only this agent; null for all."""
    ns: Name | None = None
    """Only this namespace; null for all."""
    before: Name = ""
    """Only checkpoints with a lower id."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Only checkpoints whose metadata has these values."""
    limit: Annotated[int, Field(ge=1, le=MOST)] = 50
    """The maximum number of checkpoints."""
    offset: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """The number of checkpoints to skip."""


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """A checkpoint without its values."""

    agent: str
    """The agent."""
    thread: str
    """The id of the thread."""
    ns: str
    """The namespace."""
    id: str
    """The id of the checkpoint."""
    parent: str
    """The id of the checkpoint before it; empty for none."""
    metadata: dict[str, Any]
    """The metadata."""
    created_at: Moment
    """The time at which it was stored."""
    size: int
    """The stored bytes of the checkpoint with its values. Checkpoints of a thread share values."""


@dataclass(frozen=True, slots=True)
class CheckpointPage:
    """A page of checkpoints, by id from the highest."""

    items: tuple[CheckpointView, ...]
    total: int
    """The number of all checkpoints that match."""


@operation("checkpoints.list", access="read", mutates=False, home="memories", any_store=True)
def list_checkpoints(tx: Transaction, wanted: ListCheckpoints, context: Context) -> CheckpointPage:
    """List checkpoints without their values, the newest first."""
    table = tx.checkpoints
    agents = table.agents() if wanted.agent is None else [wanted.agent]
    total, page = 0, []
    for one in table.select(
        agents=agents, thread=wanted.thread, ns=wanted.ns, before=wanted.before
    ):
        if wanted.metadata and not _fits(one, wanted.metadata):
            continue
        if wanted.offset <= total < wanted.offset + wanted.limit:
            page.append(one)
        total += 1
    return CheckpointPage(tuple(_view(one, table.size(one)) for one in page), total)


def _fits(one: Outline, wanted: dict[str, Any]) -> bool:
    metadata = orjson.loads(one.metadata)
    return all(key in metadata and metadata[key] == value for key, value in wanted.items())


def _view(one: Outline, size: int) -> CheckpointView:
    metadata = orjson.loads(one.metadata)
    return CheckpointView(*one.key, one.parent, metadata, format_time(one.created_at), size)

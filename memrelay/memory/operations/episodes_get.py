"""episodes.get: returns an episode with its input, its output and its log."""

from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from pydantic import Field

from memrelay.memory.agents.episodes import (
    EpisodeView,
    StepView,
    fetch_episode,
    view_episode,
    view_steps,
)
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_list import Limit
from memrelay.memory.records.data import LARGEST, kept_data
from memrelay.memory.records.view import Guid
from memrelay.memory.sqlite.store import Transaction

# For the other fields of the answer.
EPISODE_BYTES = 8192


@dataclass(frozen=True, slots=True)
class GetEpisode:
    """The episode to return, and the page of its log."""

    id: Guid
    """The id of the episode."""
    limit: Limit = 1000
    """The maximum number of steps. A page of long steps may have fewer."""
    offset: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """The number of steps to skip."""


@dataclass(frozen=True, slots=True)
class WholeEpisode:
    """An episode with its log."""

    episode: EpisodeView
    """The episode."""
    trigger_input: Any
    """The input."""
    final_output: Any
    """The answer."""
    error_message: str | None
    """The description of the failure."""
    feedback: str | None
    """The comment of a person."""
    steps: tuple[StepView, ...]
    """The log: messages and actions in their order."""
    total_steps: int
    """The number of steps on all pages."""


@operation("episodes.get", access="read", mutates=False, home="memories", any_store=True)
def get(tx: Transaction, wanted: GetEpisode, context: Context) -> WholeEpisode:
    """Return an episode with its input, its output and a page of its log.

    Raises RecordNotFound: when the episode does not exist.
    """
    state = fetch_episode(tx, wanted.id).whole
    data = kept_data(state.record, state.further)
    steps = view_steps(tx.episodes.steps(state.guid, wanted.limit, wanted.offset))
    room = context.result_bytes - len(state.data or "") - EPISODE_BYTES
    return WholeEpisode(
        view_episode(state),
        data.get("trigger_input"),
        data.get("final_output"),
        data.get("error_message"),
        data.get("feedback"),
        _take_fitting(steps, room),
        tx.episodes.count_steps(state.guid),
    )


def _take_fitting(steps: list[StepView], room: int) -> tuple[StepView, ...]:
    """Return the first steps that take at most `room` bytes as JSON, and at least one."""
    for index, step in enumerate(steps):
        room -= len(orjson.dumps(step)) + 1
        if room < 0:
            return tuple(steps[: max(index, 1)])
    return tuple(steps)

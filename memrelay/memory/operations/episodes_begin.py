"""episodes.begin: begins a record of what an agent does."""

from dataclasses import dataclass

from memrelay.memory.agents.episodes import NewEpisode, begin_episode
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class BegunEpisode:
    """An episode that has begun."""

    id: str
    """The id of the episode."""


@operation("episodes.begin", access="write", mutates=True, home="memories", any_store=True)
def begin(tx: Transaction, given: NewEpisode, context: Context) -> BegunEpisode:
    """Begin an episode. An execution that began before keeps its episode."""
    return BegunEpisode(begin_episode(tx, given, context))

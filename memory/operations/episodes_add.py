"""episodes.add: appends a step to the log of an episode."""

from dataclasses import dataclass

from memrelay.memory.agents.episodes import NewStep, add_step
from memrelay.memory.operation import Context, operation
from memrelay.memory.records.view import Guid
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class AddStep(NewStep):
    """A step to append."""

    id: Guid
    """The id of the episode."""


@dataclass(frozen=True, slots=True)
class AddedStep:
    """A step that was appended."""

    seq: int
    """Its position in the log, from 0."""


@operation("episodes.add", access="append", mutates=True, home="memories", any_store=True)
def add(tx: Transaction, given: AddStep, context: Context) -> AddedStep:
    """Append a message or an action to the log of an episode.

    Raises RecordNotFound: when the episode does not exist.
    """
    return AddedStep(add_step(tx, given.id, given, context))

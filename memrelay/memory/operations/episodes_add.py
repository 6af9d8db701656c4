"""episodes.add: appends a step to the log of an episode."""

from dataclasses import dataclass
from typing import Any

from memrelay.memory.agents.episodes import Label, NewStep, StepSort, Text, ToolName, add_step
from memrelay.memory.operation import Context, operation
from memrelay.memory.records.view import Guid
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class AddStep:
    """A step to append: a message of the conversation, or an action of the agent."""

    id: Guid
    """The id of the episode."""
    sort: StepSort = "message"
    """message or action."""
    text: Text = ""
    """The text of the message, or a description of the action."""
    role: Label = ""
    """The role of the speaker, such as user or assistant."""
    tool: ToolName = ""
    """The tool that was called."""
    result: Any = None
    """The result of the tool: any JSON."""


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
    step = NewStep(given.sort, given.text, given.role, given.tool, given.result)
    return AddedStep(add_step(tx, given.id, step, context))

"""A compiled recipe: what a run needs, without defaults left to fill in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from memrelay.memory.models.recipes.execution.conditions import Condition
from memrelay.memory.models.recipes.step import StepType

Priority = Literal["low", "medium", "high", "critical"]
ContributionFormat = Literal["bullet_list", "numbered", "prose", "json"]
WEIGHTS: Mapping[str, int] = {"low": 1, "medium": 2, "high": 3, "critical": 4}


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable."""

    name: str
    required: bool
    # None for no default.
    default: Any


@dataclass(frozen=True, slots=True)
class Contribution:
    """The place and the form of a recipe's items in a context."""

    section: str = "knowledge"
    priority: Priority = "medium"
    format: ContributionFormat = "bullet_list"
    max_items: int = 10

    @property
    def weight(self) -> int:
        """The priority as a number, 1 to 4."""
        return WEIGHTS[self.priority]


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """A step of a recipe."""

    type: StepType
    # Name of the result.
    alias: str
    # JSON pointer of the step in the definition.
    path: str
    # Parameters in the seed's spelling, templates included. Left out are `type`, `alias`,
    # `onError`, the branches, and `source` unless it is a field of the type's parameters.
    raw: Mapping[str, Any]
    # The validated parameters, an instance of `type.params`; None if `raw` has templates.
    params: Any
    # Alias of the input. "" for the latest list or groups.
    source: str
    on_error: Literal["fail", "skip"]
    # The parsed condition of a control step.
    condition: Condition | None
    then_steps: tuple["CompiledStep", ...]
    else_steps: tuple["CompiledStep", ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe that passed the check."""

    id: str
    label: str
    description: str
    version: str
    status: Literal["active", "deprecated"]
    inputs_scope: tuple[str, ...]
    variables: tuple[Variable, ...]
    steps: tuple[CompiledStep, ...]
    contribution: Contribution
    # The stored form of the definition. Do not change it.
    definition: Mapping[str, Any]

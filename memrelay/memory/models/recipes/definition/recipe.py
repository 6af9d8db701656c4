"""Compiled recipes, and the scopes with the variables that each of them provides."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from memrelay.memory.models.recipes.execution.conditions import Condition
from memrelay.memory.models.recipes.faults import quoted, suggest
from memrelay.memory.models.recipes.step import StepType

SCOPES: Mapping[str, tuple[str, ...]] = {
    "swarm": ("swarm_id", "swarm_name"),
    "agent": ("agent_id", "agent_name", "agent_type"),
    "project": ("project_id", "project_path"),
    "orchestrator": ("orchestrator_id",),
    "thread": ("thread_id",),
    "task": ("task_id", "task_type"),
    "user": ("user_id",),
    "org": ("org_id",),
}
SCOPE_OF: Mapping[str, str] = {name: scope for scope, names in SCOPES.items() for name in names}


def scope_fault(scope: Any, name: Any = None) -> str:
    """Return why a scope does not exist or does not have the variable, "" if it does."""
    if scope not in SCOPES:
        return f"unknown scope {quoted(scope)}{suggest(scope, SCOPES)}"
    if name is not None and name not in SCOPES[scope]:
        return f"scope {scope} has no variable {quoted(name)}{suggest(name, SCOPES[scope])}"
    return ""


def belongs_to_scope(name: str) -> str:
    """Return the rule for a scope variable that is given as an additional one."""
    scope = SCOPE_OF[name]
    return f"{name} belongs to the scope {scope}; send scope_variables.{scope}.{name}"


Priority = Literal["low", "medium", "high", "critical"]
ContributionFormat = Literal["bullet_list", "numbered", "prose", "json"]
WEIGHTS: Mapping[str, int] = {"low": 1, "medium": 2, "high": 3, "critical": 4}


@dataclass(frozen=True, slots=True)
class Variable:
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

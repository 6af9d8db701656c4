"""Steps that decide which steps run."""

from dataclasses import dataclass
from typing import Any

from memrelay.memory.models.recipes.execution.conditions import parse_condition
from memrelay.memory.models.recipes.step import StepCall, step


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditional:
    condition: str
    """The condition, such as `results.count >= 5`."""
    then_steps: list[dict[str, Any]] | None = None
    """Steps that run if the condition is true. Their results stay visible."""
    else_steps: list[dict[str, Any]] | None = None
    """Steps that run otherwise."""


@step("conditional", "control", returns=("boolean",))
def conditional(params: Conditional, call: StepCall) -> bool:
    """Return whether the condition is true, and run the steps of that branch."""
    return (call.condition or parse_condition(params.condition)).holds(call)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyExit:
    condition: str
    """The condition, such as `query.length == 0`."""


@step("early_exit", "control", returns=("boolean",))
def early_exit(params: EarlyExit, call: StepCall) -> bool:
    """Return whether the condition is true, and end the recipe if it is."""
    return (call.condition or parse_condition(params.condition)).holds(call)

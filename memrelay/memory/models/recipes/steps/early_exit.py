"""The step `early_exit`."""

from dataclasses import dataclass

from memrelay.memory.models.recipes.execution.conditions import parse_condition
from memrelay.memory.models.recipes.step import StepCall, step


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyExit:
    """Parameters of `early_exit`."""

    condition: str
    """The condition, such as `query.length == 0`."""


@step("early_exit", "control", returns=("boolean",))
def early_exit(params: EarlyExit, call: StepCall) -> bool:
    """Return whether the condition is true, and end the recipe if it is."""
    return (call.condition or parse_condition(params.condition)).holds(call)

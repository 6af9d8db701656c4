"""The step `summarize`."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from memrelay.memory.models.recipes.step import Items, StepCall, step


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarize:
    """Parameters of `summarize`."""

    max_items: Annotated[int, Ge(1)] = 10
    """Number of items to keep."""


@step("summarize", "transform", reads=("list", "groups"))
def summarize(params: Summarize, call: StepCall) -> Items:
    """Return the first items."""
    return call.items[: params.max_items]

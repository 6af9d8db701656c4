"""The step `format`."""

from dataclasses import dataclass

from memrelay.memory.models.recipes.execution.format import Format, format_items
from memrelay.memory.models.recipes.step import StepCall, step

DEFAULT_FORMAT = "bullet_list"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatItems:
    """Parameters of `format`."""

    format: Format | None = None
    """The format. The default is the `format` of the recipe's contribution."""


@step("format", "transform", reads=("list", "groups"), returns=("text",))
def format_step(params: FormatItems, call: StepCall) -> str:
    """Return the items as one text."""
    contribution = call.run["memory"].get("contribution") or {}
    style = params.format or contribution.get("format") or DEFAULT_FORMAT
    return format_items(call.items, style)

"""Steps that change items or turn them into a text."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.models.recipes.execution.items import Format, format_items
from memrelay.memory.models.recipes.step import Items, StepCall, step

DEFAULT_FORMAT = "bullet_list"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotate:
    """Parameters of `annotate`."""

    label: str | None = None
    """A label for the provenance."""


@step("annotate", "transform", reads=("list", "groups"))
def annotate(params: Annotate, call: StepCall) -> Items:
    """Add `provenance` to each item: recipe, source step, and time of the run."""
    provenance = {
        "memory": call.run["memoryId"],
        "memoryLabel": call.run["memory"].get("label", ""),
        "step": call.source_type,
        "alias": call.source,
        "retrievedAt": format_time(call.context.now_ms),
    }
    if params.label:
        provenance["label"] = params.label
    return [{**item, "provenance": provenance} for item in call.items]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarize:
    """Parameters of `summarize`."""

    max_items: Annotated[int, Ge(1)] = 10
    """Number of items to keep."""


@step("summarize", "transform", reads=("list", "groups"))
def summarize(params: Summarize, call: StepCall) -> Items:
    """Return the first items."""
    return call.items[: params.max_items]

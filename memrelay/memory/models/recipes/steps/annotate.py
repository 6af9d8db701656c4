"""The step `annotate`."""

from dataclasses import dataclass

from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.models.recipes.step import Items, StepCall, step


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

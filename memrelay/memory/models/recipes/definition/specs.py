"""Describe the step types for editors and documents, from their parameters' dataclasses."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from memrelay.memory.models.recipes.definition.check import required_names, takes_source
from memrelay.memory.models.recipes.step import StepType, all_step_types
from memrelay.memory.operations import json_type

ANY_TYPE = "any"


@dataclass(frozen=True, slots=True)
class ParamSpec:
    """A parameter of a step type."""

    name: str
    """The name in a definition."""
    type: str
    """The JSON type, or `any`."""
    required: bool
    """Whether it has no default."""
    default: Any
    """The default; null if the step chooses it."""
    enum: tuple[Any, ...]
    """The valid values; empty if any value of the type is valid."""
    description: str
    """The effect of the parameter."""


@dataclass(frozen=True, slots=True)
class StepSpec:
    """A step type."""

    type: str
    """The name in a definition."""
    category: str
    """input, retrieval, expansion, filter, aggregation, ranking, transform, control or custom."""
    description: str
    """The effect of the step."""
    inputs: tuple[str, ...]
    """The result types that its source may have; empty if it reads no source."""
    outputs: tuple[str, ...]
    """The result types that it returns."""
    params: tuple[ParamSpec, ...]
    """Its parameters, `alias` and `onError` included."""


ALIAS = ParamSpec(
    "alias", "string", required=False, default=None, enum=(), description="Name of the result."
)
ON_ERROR = ParamSpec(
    "onError",
    "string",
    required=False,
    default="fail",
    enum=("fail", "skip"),
    description="Whether a failure ends the run, or gives an empty list and a warning.",
)
SOURCE = ParamSpec(
    "source",
    "string",
    required=False,
    default=None,
    enum=(),
    description="Alias of the input. The default is the latest list or groups.",
)


@cache
def step_specs() -> tuple[StepSpec, ...]:
    """Return the description of every step type, by name."""
    return tuple(map(_spec, all_step_types().values()))


def _spec(type_: StepType) -> StepSpec:
    schema = type_.adapter.json_schema(by_alias=True)
    required = required_names(type_)
    own = [
        _param(name, field, schema.get("$defs", {}), is_required=name in required)
        for name, field in schema["properties"].items()
    ]
    source = [SOURCE] if takes_source(type_) else []
    params = (*own, *source, ALIAS, ON_ERROR)
    return StepSpec(type_.name, type_.category, type_.summary, type_.reads, type_.returns, params)


def _param(
    name: str, field: dict[str, Any], definitions: dict[str, Any], *, is_required: bool
) -> ParamSpec:
    shapes = [_resolved(one, definitions) for one in (field, *field.get("anyOf", []))]
    choices = next((tuple(one["enum"]) for one in shapes if "enum" in one), ())
    types = (json_type(one) for one in shapes)
    return ParamSpec(
        name,
        next((one for one in types if one), ANY_TYPE),
        is_required,
        field.get("default"),
        choices,
        " ".join(field.get("description", "").split()),
    )


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref", "").rpartition("/")[2]
    resolved: dict[str, Any] = definitions.get(reference, schema)
    return resolved

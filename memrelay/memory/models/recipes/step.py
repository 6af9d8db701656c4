"""Declare the step types of recipes: parameters, input, result, and the function that runs.

A step type is a function `(params, call) -> result` in a module of steps/. Its parameters are
a frozen dataclass, from which validation, the step specs and the documents are made. A string below
a field is its description. In a definition, the name of a parameter is in camel
case, as in the seed, except `max_items`.
"""

import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Literal, TypeVar, get_type_hints

from pydantic import ConfigDict, TypeAdapter

from memrelay.memory.engine.models import load
from memrelay.memory.engine.store import Transaction
from memrelay.memory.field_descriptions import declare_input
from memrelay.memory.models.recipes import steps
from memrelay.memory.models.recipes.execution.conditions import MISSING, Condition
from memrelay.memory.operations import Context

Category = Literal[
    "input",
    "retrieval",
    "expansion",
    "filter",
    "aggregation",
    "ranking",
    "transform",
    "control",
    "custom",
]
ResultType = Literal["list", "groups", "text", "boolean"]
# A JSON object with `id` and `text`, and further fields of its producer.
Item = dict[str, Any]
Items = list[Item]
Result = Items | dict[str, Items] | str | bool
Run = TypeVar("Run", bound=Callable[..., Any])
# The parameter whose name in a definition is not in camel case.
SNAKE_CASE = ("max_items",)
_AFTER_UNDERSCORE = re.compile(r"_([a-z])")


class StepFailed(Exception):
    """A step cannot deliver a result. `code` is one of the names in docs/recipes.md."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(slots=True)
class StepCall:
    """The input of a step besides its parameters. It is valid only during the call."""

    # The built-in store `recipes`, for reads.
    tx: Transaction
    context: Context
    # The name of the step's result.
    alias: str
    # The step's input: its source with groups flattened; empty without a source.
    items: Items
    # The query of the run at this point.
    query: str
    # The results so far, by alias.
    results: Mapping[str, Result]
    # The run: {memoryId, memory, intent, query, projectPath, threadId, variables}.
    run: Mapping[str, Any] = field(default_factory=dict)
    # The alias and the step type of the result that is the input; "" without a source.
    source: str = ""
    source_type: str = ""
    # The condition of the steps that have one.
    condition: Condition | None = None
    # (code, message) of each warning of this step.
    warnings: list[tuple[str, str]] = field(default_factory=list)
    # Set to change the query of the run.
    new_query: str | None = None

    def warn(self, code: str, message: str) -> None:
        self.warnings.append((code, message))

    def variable(self, name: str) -> Any:
        """Return the value of a variable, MISSING if it has none. Conditions read it."""
        return self.run["variables"].get(name, MISSING)

    def lacks(self, alias: str) -> None:
        """Warn that the condition reads an alias without result."""
        self.warn("no_result", f'the condition reads "{alias}", which has no result')


@dataclass(frozen=True)
class StepType:
    name: str
    category: Category
    # A frozen dataclass.
    params: type
    run: Callable[[Any, StepCall], Any]
    # Result types that its source may have; empty if it reads no source.
    reads: tuple[ResultType, ...]
    # Result types that it returns.
    returns: tuple[ResultType, ...]
    # First line of the function's docstring.
    summary: str

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """Validates parameters in which no template is left."""
        return TypeAdapter(self.params)


STEP_TYPES: dict[str, StepType] = {}


def step(
    name: str,
    category: Category,
    *,
    reads: tuple[ResultType, ...] = (),
    returns: tuple[ResultType, ...] = ("list",),
) -> Callable[[Run], Run]:
    """Register the decorated function as the step type `name`."""

    def declare(run: Run) -> Run:
        params = next(hint for name, hint in get_type_hints(run, include_extras=True).items())
        config = ConfigDict(
            extra="forbid",
            alias_generator=public_name,
            validate_by_alias=True,
            validate_by_name=True,
        )
        declare_input(params, config)
        STEP_TYPES[name] = StepType(
            name,
            category,
            params,
            run,
            reads,
            returns,
            (run.__doc__ or "").partition("\n")[0],
        )
        return run

    return declare


def public_name(name: str) -> str:
    """Return the name of a parameter in a definition: `top_k` is `topK`."""
    if name in SNAKE_CASE:
        return name
    return _AFTER_UNDERSCORE.sub(lambda found: found[1].upper(), name)


@cache
def all_step_types() -> dict[str, StepType]:
    """Import all step types and return them by name."""
    for module in pkgutil.iter_modules(steps.__path__):
        load(f"memrelay.memory.models.recipes.steps.{module.name}")
    return dict(sorted(STEP_TYPES.items()))

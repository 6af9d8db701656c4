"""recipes.execute: runs a recipe and returns the results of its steps."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from memrelay.memory.errors import Refused
from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.compile import compile_recipe, load_recipe
from memrelay.memory.recipes.execution.run import run_recipe
from memrelay.memory.recipes.execution.variables import RunInput
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ExecuteInput:
    """Input of `recipes.execute`: exactly one of `id` and `definition`."""

    id: str | None = None
    """Id of a stored recipe."""
    definition: dict[str, Any] | None = None
    """A definition to run without storing it."""
    intent: str | dict[str, Any] | None = None
    """`{query, keywords, action, context}`, all optional. A text is the query."""
    variables: dict[str, Any] | None = None
    """Values of the recipe's variables, by name."""
    scope_variables: dict[str, dict[str, Any]] | None = None
    """Values by scope, then by name: `{"task": {"task_id": "T1"}}`."""
    thread_id: str | None = None
    """Sets the variable `thread_id`."""


@operation("recipes.execute", access="search", mutates=False, home="recipes", stepwise=True)
def execute_recipe(
    tx: Transaction, given: ExecuteInput, context: Context
) -> Generator[None, Transaction, dict[str, Any]]:
    """Run a recipe and return its result, with the label of the recipe as `memoryLabel`."""
    if (given.id is None) == (given.definition is None):
        raise Refused("give either the id of a recipe or a definition")
    recipe = load_recipe(tx, given.id) if given.id is not None else compile_recipe(given.definition)
    wanted = RunInput(
        given.intent, given.variables or {}, given.scope_variables or {}, given.thread_id
    )
    result = yield from run_recipe(tx, recipe, wanted, context)
    return result | {"memoryLabel": recipe.label}

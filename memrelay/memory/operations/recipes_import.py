"""recipes.import: stores an exported recipe."""

from dataclasses import dataclass
from typing import Any

import orjson

from memrelay.memory.errors import Fault
from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.compile import compile_recipe
from memrelay.memory.recipes.faults import refusal
from memrelay.memory.recipes.objects import SCOPE
from memrelay.memory.recipes.stored import RecipeView, add_recipe, replace_recipe
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ImportRecipe:
    """A definition to import."""

    config: dict[str, Any] | str
    """The definition as an object or as JSON text."""
    overwrite: bool = False
    """Whether to replace a recipe with the same id."""


@dataclass(frozen=True, slots=True)
class ImportedRecipe:
    """The result of an import."""

    recipe: RecipeView
    """The stored recipe."""
    created: bool
    """Whether the recipe is new."""


@operation("recipes.import", access="write", mutates=True, home="recipes")
def import_recipe(tx: Transaction, given: ImportRecipe, context: Context) -> ImportedRecipe:
    """Store a definition as a new recipe, or replace the recipe with its id.

    Raises InvalidInput: when the definition has errors.
    Raises NameTaken: when another recipe has its id, and overwrite is false.
    """
    recipe = compile_recipe(_parse(given.config))
    if given.overwrite and tx.recipes.definitions.find_to_write(SCOPE, recipe.id) is not None:
        return ImportedRecipe(replace_recipe(tx, recipe), created=False)
    return ImportedRecipe(add_recipe(tx, recipe, context), created=True)


def _parse(config: dict[str, Any] | str) -> Any:
    if not isinstance(config, str):
        return config
    try:
        return orjson.loads(config)
    except orjson.JSONDecodeError as error:
        fault = Fault("", "bad_type", f"the definition is not JSON: {error}")
        raise refusal("the definition", [fault]) from error

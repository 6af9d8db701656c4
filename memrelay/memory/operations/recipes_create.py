"""recipes.create: stores a new recipe."""

from dataclasses import dataclass
from typing import Any

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.compile import compile_recipe
from memrelay.memory.recipes.stored import RecipeView, add_recipe
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class CreateRecipe:
    """A recipe to store."""

    definition: dict[str, Any]
    """The definition, as docs/recipes.md describes it."""


@operation("recipes.create", access="write", mutates=True, home="recipes")
def create(tx: Transaction, new: CreateRecipe, context: Context) -> RecipeView:
    """Check a definition and store it as a new recipe.

    Raises InvalidInput: when the definition has errors.
    Raises NameTaken: when another recipe has its id.
    """
    return add_recipe(tx, compile_recipe(new.definition), context)

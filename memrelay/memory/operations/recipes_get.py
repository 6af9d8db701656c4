"""recipes.get: reads a recipe."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.stored import RecipeId, RecipeView, find_recipe, view_recipe
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class GetRecipe:
    """The recipe to read."""

    id: RecipeId
    """The id of the recipe."""


@operation("recipes.get", access="read", mutates=False, home="recipes")
def get(tx: Transaction, wanted: GetRecipe, context: Context) -> RecipeView:
    """Return a recipe.

    Raises RecordNotFound: when the recipe does not exist.
    """
    return view_recipe(find_recipe(tx, wanted.id).whole)

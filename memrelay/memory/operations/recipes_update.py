"""recipes.update: replaces the definition of a recipe."""

from dataclasses import dataclass
from typing import Any

from memrelay.memory.errors import Refused
from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.compile import compile_recipe
from memrelay.memory.recipes.stored import RecipeId, RecipeView, find_recipe, replace_recipe
from memrelay.memory.records.view import Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class UpdateRecipe:
    """The new definition of a recipe."""

    id: RecipeId
    """The id of the recipe. It never changes."""
    definition: dict[str, Any]
    """The whole definition. Its `id` may be absent."""
    if_version: Versions = ()
    """Replace only if the recipe has one of these versions."""


@operation("recipes.update", access="write", mutates=True, home="recipes")
def update(tx: Transaction, change: UpdateRecipe, context: Context) -> RecipeView:
    """Replace the whole definition of a recipe.

    Raises RecordNotFound: when the recipe does not exist.
    Raises Refused: when the definition has another id.
    Raises InvalidInput: when the definition has errors.
    Raises VersionConflict: when the recipe has another version.
    """
    find_recipe(tx, change.id)
    given = change.definition.get("id", change.id)
    if given != change.id:
        raise Refused(
            f"the id of a recipe cannot change from {change.id!r} to {str(given)[:64]!r}; "
            "use recipes.duplicate and recipes.delete"
        )
    recipe = compile_recipe({**change.definition, "id": change.id})
    return replace_recipe(tx, recipe, change.if_version)

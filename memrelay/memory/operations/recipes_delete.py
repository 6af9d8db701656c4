"""recipes.delete: deletes a recipe."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.recipes.stored import RecipeId, find_recipe
from memrelay.memory.records.view import Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeleteRecipe:
    """The recipe to delete."""

    id: RecipeId
    """The id of the recipe."""
    if_version: Versions = ()
    """Delete only if the recipe has one of these versions."""


@operation("recipes.delete", access="delete", mutates=True, home="recipes")
def delete(tx: Transaction, target: DeleteRecipe, context: Context) -> None:
    """Delete a recipe. records.restore can undo it.

    Raises RecordNotFound: when the recipe does not exist.
    Raises VersionConflict: when the recipe has another version.
    """
    place = find_recipe(tx, target.id)
    check_version(place.whole.record, place.whole.further, target.if_version)
    tx.records.delete(place)

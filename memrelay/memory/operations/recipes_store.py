"""recipes.store: stores several recipes, all or none."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.errors import Fault, InvalidInput
from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.check.definition import encode_definition
from memrelay.memory.recipes.compile import compile_recipe
from memrelay.memory.recipes.faults import refusal
from memrelay.memory.recipes.objects import SCOPE
from memrelay.memory.recipes.recipe import Recipe
from memrelay.memory.recipes.stored import add_recipe, replace_recipe
from memrelay.memory.sqlite.store import Transaction

MOST = 1000


@dataclass(frozen=True, slots=True)
class StoreRecipes:
    """The recipes to store."""

    definitions: Annotated[tuple[dict[str, Any], ...], Field(min_length=1, max_length=MOST)]
    """Definitions with different ids. They replace recipes with these ids."""


@dataclass(frozen=True, slots=True)
class StoredRecipes:
    """The result."""

    created: tuple[str, ...]
    """Ids of the new recipes."""
    updated: tuple[str, ...]
    """Ids of the replaced recipes."""
    unchanged: tuple[str, ...]
    """Ids of the recipes that were the same before."""


@operation("recipes.store", access="write", mutates=True, home="recipes")
def store_recipes(tx: Transaction, given: StoreRecipes, context: Context) -> StoredRecipes:
    """Store new recipes and replace those with the same ids, all or none.

    Raises InvalidInput: when a definition has errors, or two have the same id; nothing is stored.
    """
    created, updated, unchanged = list[str](), list[str](), list[str]()
    for recipe in _compile_all(given.definitions):
        place = tx.recipes.definitions.find_to_write(SCOPE, recipe.id)
        if place is None:
            add_recipe(tx, recipe, context)
            created.append(recipe.id)
        elif place.content == encode_definition(recipe.definition):
            unchanged.append(recipe.id)
        else:
            replace_recipe(tx, recipe)
            updated.append(recipe.id)
    return StoredRecipes(tuple(created), tuple(updated), tuple(unchanged))


def _compile_all(definitions: tuple[dict[str, Any], ...]) -> list[Recipe]:
    """Compile all definitions. Raises InvalidInput with the faults of all of them."""
    recipes, faults, ids = list[Recipe](), list[Fault](), set[str]()
    for at, definition in enumerate(definitions):
        path = f"/definitions/{at}"
        try:
            recipe = compile_recipe(definition)
        except InvalidInput as error:
            faults += [one._replace(path=path + one.path) for one in error.faults]
            continue
        if recipe.id in ids:
            text = f"another definition of the call has the id {recipe.id!r}"
            faults.append(Fault(f"{path}/id", "bad_id", text))
        ids.add(recipe.id)
        recipes.append(recipe)
    if faults:
        raise refusal("the input", faults)
    return recipes

"""Compile definitions to recipes: the only way from a definition to something that runs."""

from typing import Any

import orjson

from memrelay.memory.engine.store import Transaction
from memrelay.memory.models.recipes.check.definition import check_definition
from memrelay.memory.models.recipes.faults import refusal
from memrelay.memory.models.recipes.recipe import Recipe
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.models.recipes.stored import find_recipe

# Compiled recipes per store. A full cache is emptied.
CACHED = 64


def compile_recipe(definition: Any) -> Recipe:
    """Compile a definition. Raises InvalidInput with all errors of it."""
    checked = check_definition(definition)
    if checked.recipe is None:
        raise refusal("the definition", checked.errors)
    return checked.recipe


def load_recipe(tx: Transaction, id_: str) -> Recipe:
    """Return the stored recipe with that id, compiled.

    Raises RecordNotFound: there is none. Raises InvalidInput: it does not pass the check of this
    release.
    """
    whole, compiled = find_recipe(tx, id_).state, tx.table(RecipeTables).compiled
    version = (whole.guid, whole.number, whole.updated_at)
    recipe: Recipe | None = compiled.get(version)
    if recipe is None:
        recipe = compile_recipe(orjson.loads(whole.content))
        if len(compiled) >= CACHED:
            compiled.clear()
        compiled[version] = recipe
    return recipe

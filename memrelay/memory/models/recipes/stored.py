"""Recipes as records of the home `recipes`: the key is the id, the content the definition."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.models.recipes.check.definition import encode_definition
from memrelay.memory.models.recipes.objects import SCOPE, add_object, find_object
from memrelay.memory.models.recipes.recipe import Recipe
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.operations import Context
from memrelay.memory.records.view import version_of
from memrelay.memory.records.writing import check_version

# Recipes that are read together.
PAGE = 200
RecipeId = Annotated[str, Field(min_length=1, max_length=64)]


@dataclass(frozen=True, slots=True)
class RecipeView:
    """A stored recipe."""

    id: str
    """The id."""
    label: str
    """The label."""
    definition: dict[str, Any]
    """The definition in its stored form."""
    version: str
    """Changes with every write; a write can require it."""
    created_at: Moment
    updated_at: Moment


def find_recipe(tx: Transaction, id_: str) -> StoredRecord:
    """Return the record of a recipe. Raises RecordNotFound."""
    return find_object(tx.table(RecipeTables).definitions, id_)


def all_recipes(tx: Transaction) -> Iterator[StoredRecord]:
    """Yield all recipes in the order of their ids."""
    after = ""
    while page := list(tx.table(RecipeTables).definitions.page(SCOPE, after, PAGE)):
        yield from page
        after = page[-1].state.key or ""


def add_recipe(tx: Transaction, recipe: Recipe, context: Context) -> RecipeView:
    """Store a new recipe. Raises NameTaken: another recipe has its id."""
    content = encode_definition(recipe.definition)
    return view_recipe(add_object(tx.table(RecipeTables).definitions, recipe.id, content, context))


def replace_recipe(tx: Transaction, recipe: Recipe, if_version: tuple[str, ...] = ()) -> RecipeView:
    """Replace the definition of a stored recipe; an equal one is a new version, too.

    Raises RecordNotFound: there is no recipe with its id.
    Raises VersionConflict: it has none of these versions.
    """
    place = find_recipe(tx, recipe.id)
    check_version(place.state.record, place.state.extras, if_version)
    after = place.state._replace(content=encode_definition(recipe.definition))
    return view_recipe(tx.table(RecipeTables).definitions.change(place, after))


def view_recipe(stored: State) -> RecipeView:
    """Return the view of a stored recipe."""
    definition = orjson.loads(stored.content)
    return RecipeView(
        definition["id"],
        definition["label"],
        definition,
        version_of(stored.record, stored.extras),
        format_time(stored.created_at),
        format_time(stored.updated_at),
    )

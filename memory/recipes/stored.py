"""Recipes as records of the home `recipes`: the key is the id, the content the definition."""

from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from pydantic import Field

from memrelay.memory.agents.keyed_table import new_state
from memrelay.memory.errors import NameTaken, RecordNotFound, VersionConflict
from memrelay.memory.operation import Context
from memrelay.memory.recipes.check.definition import encode_definition
from memrelay.memory.recipes.recipe import Recipe
from memrelay.memory.records.kinds import RECIPE_KIND
from memrelay.memory.records.view import version_of
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.sqlite.versions import State, StoredRecord
from memrelay.memory.timestamps import Moment, format_time

SCOPE = ""
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
    found = tx.recipes.definitions.find(SCOPE, id_)
    if found is None:
        raise RecordNotFound(f"no recipe has the id {id_[:64]!r}; use recipes.list to find recipes")
    return found


def check_recipe_version(recipe: State, allowed: tuple[str, ...]) -> None:
    """Raise VersionConflict if the recipe has none of the allowed versions; () allows all."""
    if allowed and (version := version_of(recipe.record, recipe.further)) not in allowed:
        raise VersionConflict(
            f"recipe {recipe.key!r} has version {version}, not the expected one; "
            "read it again and retry with its version"
        )


def add_recipe(tx: Transaction, recipe: Recipe, context: Context) -> RecipeView:
    """Store a new recipe. Raises NameTaken: another recipe has its id."""
    if tx.recipes.definitions.find_to_write(SCOPE, recipe.id) is not None:
        raise NameTaken(
            f"a recipe with the id {recipe.id!r} exists; use another id, or update that recipe"
        )
    new = new_state(context.new_guid(), RECIPE_KIND, context.now_ms, context.actor)
    content = encode_definition(recipe.definition)
    new = new._replace(scope=SCOPE, key=recipe.id, content=content)
    return view_recipe(tx.recipes.definitions.insert(new))


def replace_recipe(tx: Transaction, recipe: Recipe, if_version: tuple[str, ...] = ()) -> RecipeView:
    """Replace the definition of a stored recipe; an equal one is a new version, too.

    Raises RecordNotFound: there is no recipe with its id.
    Raises VersionConflict: it has none of these versions.
    """
    place = find_recipe(tx, recipe.id)
    check_recipe_version(place.whole, if_version)
    after = place.whole._replace(content=encode_definition(recipe.definition))
    return view_recipe(tx.recipes.definitions.change(place, after))


def view_recipe(stored: State) -> RecipeView:
    """Return the view of a stored recipe."""
    definition = orjson.loads(stored.content)
    return RecipeView(
        definition["id"],
        definition["label"],
        definition,
        version_of(stored.record, stored.further),
        format_time(stored.created_at),
        format_time(stored.updated_at),
    )

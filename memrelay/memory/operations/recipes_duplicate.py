"""recipes.duplicate: copies a recipe under a new id."""

from dataclasses import dataclass
from typing import Annotated

import orjson
from pydantic import Field

from memrelay.memory.errors import Fault, InvalidInput
from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.check.definition import ID, ID_RULE
from memrelay.memory.recipes.compile import compile_recipe
from memrelay.memory.recipes.faults import quoted
from memrelay.memory.recipes.objects import SCOPE
from memrelay.memory.recipes.stored import RecipeId, RecipeView, add_recipe, find_recipe
from memrelay.memory.sqlite.store import Transaction

MAX_ID_CHARACTERS = 64


@dataclass(frozen=True, slots=True)
class DuplicateRecipe:
    """The recipe to copy, and the names of the copy."""

    id: RecipeId
    """The id of the recipe to copy."""
    new_id: RecipeId | None = None
    """The id of the copy; by default `ID-copy`, `ID-copy-2` and so on."""
    label: Annotated[str, Field(min_length=1)] | None = None
    """The label of the copy; by default the label with ` (copy)`."""


@operation("recipes.duplicate", access="write", mutates=True, home="recipes")
def duplicate(tx: Transaction, wanted: DuplicateRecipe, context: Context) -> RecipeView:
    """Copy a recipe under a new id.

    Raises RecordNotFound: when the recipe does not exist.
    Raises NameTaken: when another recipe has the new id.
    Raises InvalidInput: when the new id is malformed.
    """
    if wanted.new_id is not None and not ID.fullmatch(wanted.new_id):
        message = f"id must be {ID_RULE}, not {quoted(wanted.new_id)}"
        raise InvalidInput(message, [Fault("/new_id", "bad_id", message)])
    definition = orjson.loads(find_recipe(tx, wanted.id).whole.content)
    label = wanted.label or f"{definition['label']} (copy)"
    id_ = wanted.new_id or _free_id(tx, wanted.id)
    return add_recipe(tx, compile_recipe({**definition, "id": id_, "label": label}), context)


def _free_id(tx: Transaction, id_: str) -> str:
    """Return the first free id for a copy. A long id is cut."""
    number, ending = 1, "-copy"
    while True:
        candidate = id_[: MAX_ID_CHARACTERS - len(ending)] + ending
        if tx.recipes.definitions.find(SCOPE, candidate) is None:
            return candidate
        number += 1
        ending = f"-copy-{number}"

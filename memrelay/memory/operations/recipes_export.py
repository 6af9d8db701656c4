"""recipes.export: returns a recipe as the text of a definition file."""

from dataclasses import dataclass

import orjson

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.stored import RecipeId, find_recipe
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ExportRecipe:
    """The recipe to export."""

    id: RecipeId
    """The id of the recipe."""


@dataclass(frozen=True, slots=True)
class ExportedRecipe:
    """An exported recipe."""

    id: str
    """The id."""
    text: str
    """The definition as canonical, indented JSON. Equal recipes have equal texts."""


@operation("recipes.export", access="read", mutates=False, home="recipes")
def export(tx: Transaction, wanted: ExportRecipe, context: Context) -> ExportedRecipe:
    """Return a recipe as the text of a definition file, without times.

    Raises RecordNotFound: when the recipe does not exist.
    """
    stored = find_recipe(tx, wanted.id).whole
    # The order of the keys is that of the stored definition.
    text = orjson.dumps(
        orjson.loads(stored.content), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    )
    return ExportedRecipe(wanted.id, text.decode())

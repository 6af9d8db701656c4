"""recipes.list: lists recipes by id."""

from dataclasses import dataclass
from typing import Any, Literal

from memrelay.memory.errors import ResultTooLarge
from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.stored import RecipeView, all_recipes, view_recipe
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ListRecipes:
    """The recipes to list."""

    status: Literal["active", "deprecated"] | None = None
    """Only recipes with this status."""
    active_only: bool = False
    """Only active recipes."""
    input_scope: str = ""
    """Only recipes with this scope in inputs_scope."""


@dataclass(frozen=True, slots=True)
class RecipeList:
    """Recipes in the order of their ids."""

    items: tuple[RecipeView, ...]


@operation("recipes.list", access="read", mutates=False, home="recipes")
def list_recipes(tx: Transaction, wanted: ListRecipes, context: Context) -> RecipeList:
    """List recipes in the order of their ids.

    Raises ResultTooLarge: when they do not fit into an answer.
    """
    found, size = list[RecipeView](), 0
    for stored in all_recipes(tx):
        view = view_recipe(stored.whole)
        if not _matches(view.definition, wanted):
            continue
        size += len(stored.whole.content.encode())
        if size > context.result_bytes:
            raise ResultTooLarge(
                "the recipes do not fit into one answer; list fewer with `status` or `input_scope`"
            )
        found.append(view)
    return RecipeList(tuple(found))


def _matches(definition: dict[str, Any], wanted: ListRecipes) -> bool:
    status = definition.get("status") or "active"
    return (
        wanted.status in (None, status)
        and (status == "active" or not wanted.active_only)
        and (not wanted.input_scope or wanted.input_scope in definition.get("inputs_scope", ()))
    )

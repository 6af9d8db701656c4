"""The page "Recipes": definitions with validation, a run with an intent, and the context."""

from typing import Any
from urllib.parse import urlencode

import orjson
from aiohttp import web

from memrelay.memory.engine.memory_id import built_in_store
from memrelay.web.api.directory import Served
from memrelay.web.console.calls import Call, ask
from memrelay.web.console.frame import Page, PageRoutes
from memrelay.web.server.errors import Problem

PAGE = Page("Recipes", "/pipelines/{uid}/recipes", menu="pipeline", order=30, parent="Pipelines")
QUERY = {"recipe": "The id of the recipe to edit, by default a new one."}
ERRORS = {404: "There is no such pipeline or recipe."}
# Recipes in the list. More are found with recipes.list.
MAX_SHOWN = 500
# The definition of a new recipe.
EXAMPLE = {
    "id": "my_recipe",
    "label": "My recipe",
    "retrieval": {"pipeline": [{"type": "vector_search", "collection": "memory:notes"}]},
    "contribution": {"section": "knowledge", "max_items": 5},
}
routes = PageRoutes(PAGE, errors=ERRORS, query=QUERY)


@routes.pipeline_page("recipes.html")
async def recipes(request: web.Request, served: Served) -> dict[str, Any]:
    """Show the recipes of a pipeline, and one definition to edit and run."""
    values = await _list_recipes(request, served)
    recipe = await _read_recipe(request, served)
    definition = recipe["definition"] if recipe else EXAMPLE
    return values | {
        "recipe": recipe,
        "text": orjson.dumps(definition, option=orjson.OPT_INDENT_2).decode(),
        "store": built_in_store(served.deployed.uid, "recipes"),
    }


@routes.part("/rows", "fragments/recipes.html")
async def recipes_rows(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the list of recipes."""
    return await _list_recipes(request, served)


async def _list_recipes(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of the list."""
    selected = request.query.get("recipe", "")
    values = {"selected": selected, "query": urlencode({"recipe": selected}) if selected else ""}
    try:
        (answer,) = await ask(request, served.deployed.uid, Call("recipes.list", {}))
    except Problem as problem:
        return values | {"rows": [], "total": 0, "fault": problem.detail}
    every = answer.output["items"] if answer.output else []
    return values | {"rows": every[:MAX_SHOWN], "total": len(every), "fault": answer.fault}


async def _read_recipe(request: web.Request, served: Served) -> dict[str, Any] | None:
    """Return the selected recipe; None for a new one, or if none can be read now."""
    selected = request.query.get("recipe", "")
    if not selected:
        return None
    (answer,) = await ask(request, served.deployed.uid, Call("recipes.get", {"id": selected}))
    recipe: dict[str, Any] | None = answer.output
    return recipe

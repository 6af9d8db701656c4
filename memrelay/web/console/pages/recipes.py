"""The page "Recipes": definitions with validation, a run with an intent, and the context."""

from typing import Any
from urllib.parse import urlencode

import orjson
from aiohttp import web

from memrelay.memory.engine.memory_id import built_in_store
from memrelay.web.api.directory import Served
from memrelay.web.console.calls import Wanted, ask
from memrelay.web.console.frame import Page, PageRoutes, answer_refresh, render, render_page
from memrelay.web.console.pipeline_values import find_served
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


@routes.page()
async def recipes(request: web.Request) -> web.Response:
    """Show the recipes of a pipeline, and one definition to edit and run."""
    served = await find_served(request)
    values = await _list_values(request, served)
    recipe = await _read_recipe(request, served)
    definition = recipe["definition"] if recipe else EXAMPLE
    return await render_page(
        request,
        PAGE,
        "recipes.html",
        served,
        recipe=recipe,
        text=orjson.dumps(definition, option=orjson.OPT_INDENT_2).decode(),
        store=built_in_store(served.deployed.uid, "recipes"),
        **values,
    )


@routes.fragment(PAGE.path + "/rows")
async def recipes_rows(request: web.Request) -> web.Response:
    """Return the list of recipes."""
    served = await find_served(request)

    async def make() -> web.Response:
        values = await _list_values(request, served)
        return render("fragments/recipes.html", uid=served.deployed.uid, **values)

    return await answer_refresh(request, served, make)


async def _list_values(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of the list."""
    selected = request.query.get("recipe", "")
    values = {"selected": selected, "query": urlencode({"recipe": selected}) if selected else ""}
    try:
        (answer,) = await ask(request, served.deployed.uid, Wanted("recipes.list", {}))
    except Problem as problem:
        return values | {"rows": [], "total": 0, "fault": problem.detail}
    found = answer.output["items"] if answer.output else []
    return values | {"rows": found[:MAX_SHOWN], "total": len(found), "fault": answer.fault}


async def _read_recipe(request: web.Request, served: Served) -> dict[str, Any] | None:
    """Return the selected recipe; None for a new one, or if none can be read now."""
    selected = request.query.get("recipe", "")
    if not selected:
        return None
    (found,) = await ask(request, served.deployed.uid, Wanted("recipes.get", {"id": selected}))
    recipe: dict[str, Any] | None = found.output
    return recipe

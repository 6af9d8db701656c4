"""/persistent-memory: recipes, their validation and execution."""

from typing import Any

from aiohttp import web

from memrelay.web.api.answers import json_response
from memrelay.web.models.codebolt import shapes
from memrelay.web.models.codebolt.errors import CODEBOLT_API
from memrelay.web.models.codebolt.events import PIPELINE_EXECUTED, publish_live
from memrelay.web.models.request_fields import Body, Json, same, spell, within
from memrelay.web.models.routes import Call, Route, answer_file, serve_all
from memrelay.web.models.shapes import array_of
from memrelay.web.server.errors import BadRequest

routes = web.RouteTableDef()
ROOT = "/persistent-memory"
TYPES = f"{ROOT}/types"
TYPE = TYPES + "/{id}"
DEFINITION = Body(whole="definition", example="The definition of a recipe.")
RUN = same("variables", "scope_variables") | spell(thread_id="threadId")
INTENT = same("query", "keywords", "action", "context")


def to_definition(view: Json) -> Json:
    """Return the definition of a recipe with its times, or its id if the caller may not read it."""
    if "definition" not in view:
        return {"id": view["id"]}
    times = {"createdAt": view["created_at"], "updatedAt": view["updated_at"]}
    return {**view["definition"], **times}


def _answer_import(call: Call) -> web.Response:
    """Answer an import: 201 for a new recipe, and 200 for one that replaced another."""
    recipe, status = call.output["recipe"], 201 if call.output["created"] else 200
    return json_response(to_definition(recipe), status, ETag=f'"{recipe["version"]}"')


def _publish_execution(call: Call) -> None:
    """Publish a run to the clients that follow the pipeline's events."""
    event = {
        "id": call.input["id"],
        "label": call.output["memoryLabel"],
        "projectId": call.uid,
        "success": call.output["success"],
        "durationMs": call.output["timing"]["totalMs"],
    }
    publish_live(call.request, call.uid, PIPELINE_EXECUTED, event)


def _result(call: Call) -> Json:
    """Return the result of a run. Codebolt's results have no label."""
    return {name: value for name, value in call.output.items() if name != "memoryLabel"}


def _check_id(request: web.Request, body: Json) -> None:
    """Raise BadRequest if a definition has another id than the path."""
    id_in_path, id_in_body = request.match_info["id"], body.get("id", request.match_info["id"])
    if id_in_body != id_in_path:
        message = f"the definition has another id than the path: {str(id_in_body)[:100]!r}"
        fault = {"pointer": "/id", "rule": message, "suggestion": "", "code": "bad_id"}
        raise BadRequest(f"{message}; duplicate the recipe to rename it", faults=[fault])


def _definition(call: Call) -> Any:
    return to_definition(call.output)


serve_all(
    CODEBOLT_API,
    routes,
    (
        Route(
            "GET",
            TYPES,
            "recipes.list",
            "List the recipes in the order of their ids.",
            convert=lambda call: [to_definition(one) for one in call.output["items"]],
            shape=array_of(shapes.Definition),
            query={
                "status": ("status", "Only recipes of this status: active or deprecated."),
                "activeOnly": ("active_only", "true for active recipes only."),
                "input_scope": ("input_scope", "Only recipes with this input scope."),
                "inputScope": ("input_scope", "Another spelling of input_scope."),
            },
        ),
        Route(
            "POST",
            TYPES,
            "recipes.create",
            "Create a recipe.",
            convert=_definition,
            shape=shapes.Definition,
            status=201,
            body=DEFINITION,
        ),
        Route(
            "GET",
            TYPE,
            "recipes.get",
            "Return a recipe.",
            convert=_definition,
            shape=shapes.Definition,
        ),
        Route(
            "PUT",
            TYPE,
            "recipes.update",
            "Replace a recipe.",
            convert=_definition,
            shape=shapes.Definition,
            body=DEFINITION,
            check=_check_id,
        ),
        Route("DELETE", TYPE, "recipes.delete", "Delete a recipe.", status=204),
        Route(
            "POST",
            f"{TYPE}/execute",
            "recipes.execute",
            "Run a recipe.",
            convert=_result,
            shape=dict[str, Any],
            body=Body(
                fields=within("intent", "", INTENT) | RUN,
                batch_key="intent",
                batch=same("intent") | RUN,
                example="{intent} or its fields {query?, keywords?, action?, context?}, and "
                "{variables?, scope_variables?, threadId?}",
            ),
            after=_publish_execution,
        ),
        Route(
            "POST",
            f"{ROOT}/validate",
            "recipes.validate",
            "Validate a definition.",
            shape=shapes.Validation,
            body=DEFINITION,
        ),
        Route(
            "GET",
            f"{ROOT}/step-specs",
            "recipes.specs",
            "List the types of steps.",
            shape=array_of(shapes.StepSpec),
        ),
        Route(
            "GET",
            f"{ROOT}/step-specs/user-configurable",
            "recipes.specs",
            "List the types of steps that need no code.",
            shape=array_of(shapes.StepSpec),
            fixed={"user_configurable": True},
        ),
        Route(
            "GET",
            f"{TYPE}/export",
            "recipes.export",
            "Export a definition as a file, without its times.",
            answer=answer_file,
            shape=shapes.Definition,
        ),
        Route(
            "POST",
            f"{ROOT}/import",
            "recipes.import",
            "Import a definition.",
            answer=_answer_import,
            shape=shapes.Definition,
            status=201,
            other_statuses={200: "The recipe, which replaced another one."},
            body=Body(
                fields=same("config", "overwrite"),
                example="{config, overwrite?}. config is a definition or its JSON text.",
            ),
        ),
        Route(
            "POST",
            f"{TYPE}/duplicate",
            "recipes.duplicate",
            "Copy a recipe.",
            convert=_definition,
            shape=shapes.Definition,
            status=201,
            body=Body(fields=spell(new_id="id", label="label"), example="{id?, label?}"),
        ),
    ),
)

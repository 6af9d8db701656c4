"""All that is served, described as OpenAPI 3.1: made from the routes, what stands beside each, and
the operations."""

import dataclasses
import re
from importlib.metadata import version
from typing import Any

from aiohttp import hdrs, web
from pydantic import TypeAdapter

from memrelay.memory.operation import Operation, all_operations, json_type
from memrelay.web.api.answers import SAFE
from memrelay.web.api.operation_routes import STORE, OperationRoute, route_of
from memrelay.web.api.operations import ACTION
from memrelay.web.auth.access import OPEN, OWN, access_of
from memrelay.web.openapi.route_docs import HTML, JSON, KEYED, UNCHANGED, Described, description_of
from memrelay.web.soat.errors import LATER_SCHEMA, SCHEMA, is_later, is_soat

Json = dict[str, Any]
SCHEMAS = "#/components/schemas/{model}"
PROBLEM = {"application/problem+json": {"schema": {"$ref": SCHEMAS.format(model="Problem")}}}
PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "faults": {
            "type": "array",
            "items": {"type": "object"},
            "description": "Everything that is wrong, by JSON pointer.",
        },
    },
}
FAULTS = {"Problem": PROBLEM_SCHEMA, "Error": SCHEMA, "LaterError": LATER_SCHEMA}
LICENCE = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
ABOUT = "Memory for agents, on a message bus. Every answer carries X-Request-Id."
PARAMETER = re.compile(r"\{(\w+)\}")
NAMES = {
    "uid": "The pipeline's uid.",
    "guid": "The record's guid.",
    "id": "The id of the memory or entry.",
    "memory_id": "The memory's id.",
    "entry_id": "The entry's id.",
    "swarm": "The swarm's name.",
    "alias": "The agent's alias.",
    "ident": "The dead letter's id.",
    "token": "The agent's token.",
    "trigger": "The agent's block.",
    "name": "The file.",
}
# What parameters of routes written by hand are, by their names; all others are text.
IN_QUERY: dict[str, Json] = {
    "limit": {"type": "integer", "minimum": 1},
    "offset": {"type": "integer", "minimum": 0},
    "page": {"type": "integer", "minimum": 1},
    "wait": {"type": "number", "exclusiveMinimum": 0},
    "tags": {"type": "array", "items": {"type": "string"}},
    "order": {"type": "string", "enum": ["asc", "desc"]},
    "include_invalidated": {"type": "boolean"},
}
REFUSALS = {401: "no key that is in force came with it", 403: "the key does not go so far"}
CALLED = {
    404: "no such pipeline or record",
    422: "the input is wrong, or refused",
    503: "no worker serves the pipeline, or too much waits: nothing was done",
    504: "no answer in time; Retry-After says when to come again",
}
# What any route may answer, what one that changes something may, and what one with a name in its
# path may.
ANYWHERE = {
    400: "the request cannot be understood",
    403: "a page of another site may not do this",
    421: "the header Host names another server",
    429: "more requests than one caller may make; Retry-After says when there is room",
    500: "a fault of the server's",
    503: "the bus or the catalogue is away, or too busy; Retry-After says when to come again",
}
CHANGING = {
    408: "the request was not whole in time",
    413: "the body is longer than a message may be",
    415: "the body cannot be taken in this form",
}
BARE = (101, 204, 303, 304)  # without a body
NAMED = {404: "there is no such thing"}


def describe(app: web.Application) -> Json:
    """The whole document. Raises LookupError for a route of which nothing is said."""
    operations = {
        (place.method, place.path): (operation, place)
        for operation in all_operations().values()
        for place in [route_of(operation)]
    }
    routes = [
        (route, route.resource.canonical)
        for route in app.router.routes()
        if route.method != hdrs.METH_HEAD and route.resource is not None
    ]  # HEAD is what GET answers, without its body
    outputs, schemas = _outputs(
        [operation for operation, _ in operations.values()], [route for route, _ in routes]
    )
    paths: dict[str, Json] = {}
    for route, path in routes:
        called = operations.get((route.method, path))
        told = _operation(*called, outputs) if called else _by_hand(route, path, outputs)
        told |= _access(route, told["responses"])
        paths.setdefault(path, {})[route.method.lower()] = (
            _in_soats_shape(told, is_later(path)) if is_soat(path) else told
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Memrelay",
            "version": version("memrelay"),
            "license": LICENCE,
            "description": ABOUT,
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": FAULTS | schemas,
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "mr_ID_SECRET; needed from the first key on",
                }
            },
        },
    }


def _outputs(
    operations: list[Operation], routes: list[web.AbstractRoute]
) -> tuple[dict[Any, Json], Json]:
    """(the schemas of what is given, by the name of an operation or the shape's type, and what
    these refer to)."""
    described = [description_of(route.handler) or Described({}) for route in routes]
    by_hand = {shape for one in described for shape in (one.accepts, *one.gives.values())}
    given: dict[Any, Any] = {
        one.name: one.output for one in operations if one.output is not type(None)
    }
    given |= {shape: shape for shape in sorted(by_hand, key=str)}
    found, told = TypeAdapter.json_schemas(
        [(name, "serialization", TypeAdapter(shape)) for name, shape in given.items()],
        ref_template=SCHEMAS,
    )
    # Of generic shapes all have one title, which programs that make clients take for a name; they
    # have names of their own.
    schemas = {
        name: {word: held for word, held in schema.items() if word != "title"}
        for name, schema in told.get("$defs", {}).items()
    }
    return {name: schema for (name, _), schema in found.items()}, schemas


def _operation(operation: Operation, place: OperationRoute, outputs: dict[Any, Json]) -> Json:
    schema = operation.adapter.json_schema()
    fields, required = schema["properties"], schema.get("required", [])
    parameters = _in_path(place.path) + [
        _parameter(
            "query",
            name,
            fields[name]["description"],
            schema=_plain(fields[name]),
            required=name in required,
        )
        for name in place.query_fields
    ]
    parameters.append(
        _parameter(
            "query", STORE, "The memory_id of one of the bundle's stores; by default its first."
        )
    )
    if place.has_if_match:
        parameters.append(_parameter("header", "If-Match", "The record's ETag, several, or *."))
    parameters += [
        _parameter("header", name, text)
        for name, text in (
            KEYED if operation.mutates else UNCHANGED if operation.verb == "get" else {}
        ).items()
    ]
    body = (
        {
            "requestBody": {
                "required": True,
                "content": {
                    JSON: {
                        "schema": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": [name for name in required if name in place.body_fields],
                            "properties": {name: fields[name] for name in place.body_fields},
                        }
                    }
                },
            }
        }
        if place.body_fields
        else {}
    )
    told = CALLED | ({412: "the record has another version"} if place.has_if_match else {})
    return {
        "operationId": operation.name,
        "tags": [operation.noun],
        "summary": operation.summary,
        "parameters": parameters,
        **body,
        "responses": _success(operation, outputs)
        | {str(status): _problem(text) for status, text in told.items()},
    }


def _success(operation: Operation, outputs: dict[Any, Json]) -> Json:
    if operation.name not in outputs:
        return {"204": {"description": "It is done."}}
    answer = {"description": "It is done.", "content": {JSON: {"schema": outputs[operation.name]}}}
    if operation.verb == "get":
        return {"200": answer, "304": {"description": "It has that version still."}}
    if operation.verb != "create":
        return {"200": answer}
    may_find = ACTION in {field.name for field in dataclasses.fields(operation.output)}
    found = {"200": answer | {"description": "It was there already, or another one holds it now."}}
    return {"201": answer} | (found if may_find else {})


def _by_hand(route: web.AbstractRoute, path: str, outputs: dict[Any, Json]) -> Json:
    described = description_of(route.handler)
    if described is None:
        raise LookupError(f"{route.method} {path} does not say what it answers; @described does")
    module, name = route.handler.__module__.rpartition(".")[2], route.handler.__name__
    parameters = _in_path(path) + [
        _parameter("query", name, text, schema=IN_QUERY.get(name))
        for name, text in described.query.items()
    ]
    parameters += [_parameter("header", name, text) for name, text in described.headers.items()]
    body = (
        {
            "requestBody": {
                "description": described.body,
                "content": {described.takes: {"schema": outputs[described.accepts]}},
            }
        }
        if described.body
        else {}
    )
    return {
        "operationId": f"{module}.{name}",
        "tags": [module],
        "summary": (route.handler.__doc__ or "").partition("\n")[0],
        "parameters": parameters,
        **body,
        "responses": _answers(described, outputs),
    }


def _answers(described: Described, outputs: dict[Any, Json]) -> Json:
    return {str(status): _answer(described, status, outputs) for status in described.answers}


def _answer(described: Described, status: int, outputs: dict[Any, Json]) -> Json:
    text, shape = described.answers[status], described.gives.get(status)
    if status >= 400 and shape is None:
        return _problem(text, described.kind)
    content = (
        {}
        if status in BARE
        else {"content": {described.kind: {} if shape is None else {"schema": outputs[shape]}}}
    )
    return {"description": text} | content


def _access(route: web.AbstractRoute, responses: Json) -> Json:
    """Who may call, and what may be told wherever one calls."""
    access, described = access_of(route.handler), description_of(route.handler)
    told = (
        ANYWHERE
        | (CHANGING if route.method not in SAFE else {})
        | (NAMED if "{" in str(route.resource) else {})
    )
    told |= REFUSALS if access != OPEN else {}
    kind = described.kind if described else JSON
    responses = {str(status): _problem(text, kind) for status, text in told.items()} | responses
    security: list[Json] = (
        [] if access == OPEN else [{}, {"key": []}] if access == OWN else [{"key": []}]
    )
    return {"responses": dict(sorted(responses.items())), "security": security, "x-scope": access}


def _in_soats_shape(told: Json, later: bool) -> Json:
    """The same, with faults as its paths tell them, or those of its later versions."""
    shape = {JSON: {"schema": {"$ref": SCHEMAS.format(model="LaterError" if later else "Error")}}}
    responses = {
        status: one | {"content": shape} if status >= "400" else one
        for status, one in told["responses"].items()
    }
    return told | {
        "operationId": f"soat.{told['operationId']}",
        "tags": ["soat"],
        "responses": responses,
    }


def _problem(text: str, kind: str = JSON) -> Json:
    """A page tells its fault as a page."""
    return {"description": text, "content": PROBLEM | ({HTML: {}} if kind == HTML else {})}


def _in_path(path: str) -> list[Json]:
    return [
        _parameter("path", name, NAMES[name], required=True) for name in PARAMETER.findall(path)
    ]


def _parameter(
    where: str, name: str, text: str, *, schema: Json | None = None, required: bool = False
) -> Json:
    told = {"in": where, "name": name, "description": text, "required": required}
    if schema and json_type(schema) == "object":
        return told | {"content": {JSON: {"schema": schema}}}
    return told | {"schema": schema or {"type": "string"}}


def _plain(schema: Json) -> Json:
    return {name: value for name, value in schema.items() if name not in ("title", "description")}

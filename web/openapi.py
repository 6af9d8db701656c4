"""All that is served, described as OpenAPI 3.1: made from the routes, what stands beside each, and the operations."""
import re
from importlib.metadata import version
from typing import Any

from aiohttp import hdrs, web
from pydantic import TypeAdapter

from memory.operation import Operation, all_operations
from web.access import OPEN, OWN, access_of
from web.described import JSON, KEYED, Described, description_of
from web.operation_routes import STORE, Place, place_of

Json = dict[str, Any]
SCHEMAS = "#/components/schemas/{model}"
PROBLEM = {"description": "A fault: `detail` names the rule and the remedy.",
           "content": {"application/problem+json": {"schema": {"$ref": SCHEMAS.format(model="Problem")}}}}
PROBLEM_SCHEMA = {"type": "object", "required": ["type", "title", "status", "detail"], "properties": {
    "type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"}, "detail": {"type": "string"},
    "faults": {"type": "array", "items": {"type": "object"}, "description": "Everything that is wrong, by JSON pointer."}}}
LICENCE = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
ABOUT = "Memory for agents, on a message bus. Every answer carries X-Request-Id."
PARAMETER = re.compile(r"\{(\w+)\}")
NAMES = {"uid": "The pipeline's uid.", "guid": "The record's guid.", "swarm": "The swarm's name.",
         "alias": "The agent's alias.",
         "ident": "The dead letter's id.", "token": "The agent's token.", "trigger": "The agent's block.", "name": "The file."}
REFUSALS = {401: "no key that is in force came with it", 403: "the key does not go so far"}
CALLED = {404: "no such pipeline or record", 422: "the input is wrong, or refused",
          503: "no worker serves the pipeline, or too much waits: nothing was done", 504: "no answer in time"}


def describe(app: web.Application) -> Json:
    """The whole document. Raises LookupError for a route of which nothing is said."""
    operations = {(place.method, place.path): (operation, place) for operation in all_operations().values()
                  for place in [place_of(operation)]}
    outputs, schemas = _outputs([operation for operation, _ in operations.values()])
    paths: dict[str, Json] = {}
    for route in app.router.routes():
        if route.method == hdrs.METH_HEAD or route.resource is None:
            continue   # what GET answers, without its body
        path = route.resource.canonical
        called = operations.get((route.method, path))
        told = _operation(*called, outputs) if called else _by_hand(route, path)
        paths.setdefault(path, {})[route.method.lower()] = told | _access(access_of(route.handler), told["responses"])
    return {"openapi": "3.1.0",
            "info": {"title": "Memrelay", "version": version("memrelay"), "license": LICENCE, "description": ABOUT},
            "paths": dict(sorted(paths.items())),
            "components": {"schemas": {"Problem": PROBLEM_SCHEMA} | schemas, "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "mr_ID_SECRET; needed from the first key on"}}}}


def _outputs(operations: list[Operation]) -> tuple[dict[str, Json], Json]:
    """(by operation the schema of its output, what these refer to)."""
    giving = [(one.name, "serialization", TypeAdapter(one.output)) for one in operations if one.output is not type(None)]
    found, told = TypeAdapter.json_schemas(giving, ref_template=SCHEMAS)   # type: ignore[arg-type]
    return {name: schema for (name, _), schema in found.items()}, told.get("$defs", {})


def _operation(operation: Operation, place: Place, outputs: dict[str, Json]) -> Json:
    schema = operation.adapter.json_schema()
    fields, required = schema["properties"], schema.get("required", [])
    parameters = _in_path(place.path) + [_parameter("query", name, fields[name]["description"], schema=_plain(fields[name]),
                                                    required=name in required) for name in place.query_fields]
    parameters.append(_parameter("query", STORE, "The memory_id of one of the bundle's stores; by default its first."))
    if place.has_if_match:
        parameters.append(_parameter("header", "If-Match", "The record's ETag, several, or *."))
    parameters += [_parameter("header", name, text) for name, text in KEYED.items() if operation.mutates]
    body = {"requestBody": {"required": True, "content": {JSON: {"schema": {
        "type": "object", "additionalProperties": False, "required": [name for name in required if name in place.body_fields],
        "properties": {name: fields[name] for name in place.body_fields}}}}}} if place.body_fields else {}
    told = CALLED | ({412: "the record has another version"} if place.has_if_match else {})
    return {"operationId": operation.name, "tags": [operation.noun], "summary": operation.summary, "parameters": parameters,
            **body, "responses": _success(operation, outputs) | {str(status): _problem(text) for status, text in told.items()}}


def _success(operation: Operation, outputs: dict[str, Json]) -> Json:
    if operation.name not in outputs:
        return {"204": {"description": "It is done."}}
    answer = {"description": "It is done.", "content": {JSON: {"schema": outputs[operation.name]}}}
    return {"201" if operation.verb == "create" else "200": answer}


def _by_hand(route: web.AbstractRoute, path: str) -> Json:
    described = description_of(route.handler)
    if described is None:
        raise LookupError(f"{route.method} {path} does not say what it answers; @described does")
    module, name = route.handler.__module__.rpartition(".")[2], route.handler.__name__
    parameters = _in_path(path) + [_parameter("query", name, text) for name, text in described.query.items()]
    parameters += [_parameter("header", name, text) for name, text in described.headers.items()]
    body = {"requestBody": {"description": described.body, "content": {described.takes: {}}}} if described.body else {}
    return {"operationId": f"{module}.{name}", "tags": [module], "summary": (route.handler.__doc__ or "").partition("\n")[0],
            "parameters": parameters, **body, "responses": _answers(described)}


def _answers(described: Described) -> Json:
    return {str(status): _problem(text) if status >= 400 and described.kind == JSON else
            {"description": text} | ({"content": {described.kind: {}}} if status not in (101, 204, 303, 304) else {})
            for status, text in described.answers.items()}


def _access(access: str, responses: Json) -> Json:
    """Who may call, and how all is told that is not said of the route itself."""
    told = {} if access in (OPEN, OWN) else REFUSALS
    responses = {str(status): _problem(text) for status, text in told.items()} | responses | {"default": PROBLEM}
    security: list[Json] = [] if access == OPEN else [{}, {"key": []}] if access == OWN else [{"key": []}]
    return {"responses": dict(sorted(responses.items())), "security": security, "x-scope": access}


def _problem(text: str) -> Json:
    return PROBLEM | {"description": text}


def _in_path(path: str) -> list[Json]:
    return [_parameter("path", name, NAMES[name], required=True) for name in PARAMETER.findall(path)]


def _parameter(where: str, name: str, text: str, *, schema: Json | None = None, required: bool = False) -> Json:
    return {"in": where, "name": name, "description": text, "required": required, "schema": schema or {"type": "string"}}


def _plain(schema: Json) -> Json:
    return {name: value for name, value in schema.items() if name not in ("title", "description")}

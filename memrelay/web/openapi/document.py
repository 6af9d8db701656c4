"""The OpenAPI 3.1 document, built from the routes, their documentation, and the operations."""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

from aiohttp import hdrs, web
from pydantic import TypeAdapter

from memrelay.bus.streams.entry import LONGEST_ID
from memrelay.memory.operations import (
    AS_OF,
    AS_OF_TEXT,
    STORE,
    Operation,
    all_operations,
    input_schema,
    json_type,
    selects_store,
)
from memrelay.memory.stopped_writes import Dropped, ReviewPending
from memrelay.web.api.answers import CACHEABLE_METHODS, MAX_ITEMS
from memrelay.web.api.operation_routes import (
    ACTION,
    IF_ABSENT,
    OperationRoute,
    returns_stored_text,
    route_of,
)
from memrelay.web.auth.access import OPEN, OWN, get_access, is_reached_by_jwt
from memrelay.web.auth.authorizer import API_KEY_HEADER
from memrelay.web.openapi.groups import describe_tag, find_dialect_group, find_group
from memrelay.web.openapi.route_docs import (
    CONFLICT,
    HTML,
    IDEMPOTENCY_HEADERS,
    IF_ABSENT_HEADER,
    IF_NONE_MATCH_HEADER,
    JSON,
    RouteDocs,
    get_route_docs,
    query_schema,
)
from memrelay.web.openapi.shapes import Reference
from memrelay.web.server.error_dialects import (
    DIALECTS,
    PIPELINE_PREFIX,
    ErrorDialect,
    get_error_dialect,
)
from memrelay.web.server.errors import PROBLEM_TYPE
from memrelay.web.services import SERVICES

Json = dict[str, Any]
SCHEMA_REF = "#/components/schemas/{model}"
PROBLEM = {PROBLEM_TYPE: {"schema": {"$ref": SCHEMA_REF.format(model="Problem")}}}
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
            "description": "All faults, each with its JSON pointer.",
        },
    },
}
LICENSE = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
DESCRIPTION = "Memory for agents on a message bus. Every response has an X-Request-Id."
SECURITY_SCHEMES = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "mr_ID_SECRET. Required as soon as a key has been created.",
    },
    "api_key": {
        "type": "apiKey",
        "in": "header",
        "name": API_KEY_HEADER,
        "description": "The same key in a header of its own.",
    },
    "jwt": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A JWT of an issuer in web.jwt, for an agent or a service.",
    },
}
PATH_PARAMETER = re.compile(r"\{(\w+)\}")
PATH_PARAMETERS = {
    "uid": "The pipeline's uid.",
    "guid": "The record's guid.",
    "id": "The id.",
    "instance": "The id or the name of the key-value store, event log or graph.",
    "namespace": "The namespace of the key.",
    "key": "The key. Encode `/`, `?`, `#`, `%` and a key of dots: `%2E%2E` for `..`.",
    "uri": "The uri of the document. Encode `/`, `?`, `#`, `%` and a uri of dots.",
    "memory_id": "The memory's id.",
    "entry_id": "The entry's id.",
    "swarm": "The swarm's name.",
    "alias": "The agent's alias.",
    "ident": "The dead letter's id.",
    "entry": "The id of the message: the part of a `mid` before its first dot.",
    "token": "The agent's token.",
    "trigger": "The agent's block.",
    "name": "The file's name.",
    "group": "The name of a group of routes.",
    "workflow": "The pipeline's uid or name.",
}
# Schemas of the query parameters of handwritten routes. All other parameters are strings.
QUERY_SCHEMAS: dict[str, Json] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_ITEMS},
    "wait": {"type": "number", "exclusiveMinimum": 0},
    "include_invalidated": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "order": {"type": "string", "enum": ["asc", "desc"]},
}
# The ids that a client may choose for a message or call: not empty, and no space at the ends.
MESSAGE_ID_SCHEMA = {
    "type": "string",
    "minLength": 1,
    "maxLength": LONGEST_ID,
    "pattern": r"^\S(.*\S)?$",
}
ETAG_LIST_SCHEMA = {
    "type": "string",
    "pattern": r'^(\*|(W/)?"[^"]*"(\s*,\s*(W/)?"[^"]*")*)$',
}
# Schemas of request headers. All others are strings.
HEADER_SCHEMAS: dict[str, Json] = {
    "webhook-id": MESSAGE_ID_SCHEMA,
    "Idempotency-Key": MESSAGE_ID_SCHEMA,
    "If-Match": ETAG_LIST_SCHEMA,
}
# Errors of routes that require a key.
AUTH_ERRORS = {
    401: "The key is missing, invalid, expired, or revoked.",
    403: "The key lacks the scope.",
}
# Errors of operations.
OPERATION_ERRORS = {
    404: "The pipeline or record does not exist.",
    422: "The input is invalid or was rejected.",
    503: "No worker serves the pipeline, or it is overloaded. Nothing was done.",
    504: "No answer in time. Retry-After tells when to retry.",
}
# Errors of every route.
# The answers to a call with `as_of`.
PAST_ERRORS = {
    202: "The state of then is still being made. Retry after the time in Retry-After.",
    410: "The state of then is no longer known. The detail names the earliest one.",
}
# The answer to a write that a policy stops.
STOPPED_WRITE = "A policy of the store holds the write for review, or drops it."
COMMON_ERRORS = {
    400: "The request is malformed.",
    403: "A page of another site sent the request.",
    421: "The Host header names another server.",
    429: "The caller exceeded the rate limit. Retry-After tells when to retry.",
    500: "Internal server error.",
    503: "The bus or the catalog is down or overloaded. Retry-After tells when to retry.",
}
# Errors of routes that change something.
CHANGE_ERRORS = {
    408: "The request did not arrive completely in time.",
    413: "The body exceeds the size limit of a message.",
    415: "The content type or encoding is not accepted.",
}
# Errors of routes with a parameter in the path.
PATH_ERRORS = {404: "Not found."}
# Statuses without a body.
EMPTY_STATUSES = (101, 204, 303, 304)
LOCAL_REF = "#/$defs/"
# Inputs and outputs may have types with one name.
SHARED_REF = "#/components/schemas/{}Input"


def build_document(app: web.Application) -> Json:
    """Return the document. Raises LookupError for an undocumented route."""
    places = [(operation, route_of(operation)) for operation in all_operations().values()]
    operations = {(place.method, place.path): (one, place) for one, place in places}
    routes = _list_routes(app)
    outputs, schemas = _build_schemas(
        [operation for operation, _ in places], [route for route, _ in routes]
    )
    paths: dict[str, Json] = {}
    for route, path in routes:
        match = operations.get((route.method, path))
        if match:
            item = _describe_operation(*match, outputs)
        else:
            item = _describe_route(route, path, outputs, _query_schemas(app))
        paths.setdefault(path, {})[route.method.lower()] = _complete(item, route, path)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Memrelay",
            "version": version("memrelay"),
            "license": LICENSE,
            "description": DESCRIPTION,
        },
        "tags": _describe_tags(paths),
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": _error_schemas(app) | schemas,
            "securitySchemes": SECURITY_SCHEMES,
        },
    }


def _describe_tags(paths: dict[str, Json]) -> list[dict[str, str]]:
    """Return the tags of all operations with their descriptions. Raises LookupError."""
    names = {item["tags"][0] for methods in paths.values() for item in methods.values()}
    return [describe_tag(name) for name in sorted(names)]


def _query_schemas(app: web.Application) -> dict[str, Json]:
    wait = QUERY_SCHEMAS["wait"] | {"maximum": app[SERVICES].options.max_wait_s}
    return QUERY_SCHEMAS | {"wait": wait}


def _error_schemas(app: web.Application) -> Json:
    return {"Problem": PROBLEM_SCHEMA} | {one.model: one.schema for one in app[DIALECTS]}


def _complete(item: Json, route: web.AbstractRoute, path: str) -> Json:
    """Add the access rule and the common errors, in the dialect of the route."""
    item |= _describe_access(route, item["responses"])
    dialect = get_error_dialect(route.handler)
    return item if dialect is None else _use_dialect(item, dialect, path)


def _list_routes(app: web.Application) -> list[tuple[web.AbstractRoute, str]]:
    """Return each route with its path.

    HEAD is omitted because GET implies it, and a path with a last slash if it also exists without.
    """
    found = {
        (route.method, route.resource.canonical): route
        for route in app.router.routes()
        if route.method != hdrs.METH_HEAD and route.resource is not None
    }
    return [
        (route, path)
        for (method, path), route in found.items()
        if not path.endswith("/") or (method, path.rstrip("/")) not in found
    ]


def _build_schemas(
    operations: list[Operation], routes: list[web.AbstractRoute]
) -> tuple[dict[Any, Json], Json]:
    """Return (output schemas by operation name or Python type, the definitions they refer to)."""
    docs = [get_route_docs(route.handler) or RouteDocs({}) for route in routes]
    types = {shape for one in docs for shape in (one.body_schema, *one.schemas.values())}
    by_key: dict[Any, Any] = {
        one.name: one.output for one in operations if one.output is not type(None)
    }
    by_key |= {
        shape: shape for shape in sorted(types | {Reference, ReviewPending, Dropped}, key=str)
    }
    found, definitions = TypeAdapter.json_schemas(
        [(key, "serialization", TypeAdapter(shape)) for key, shape in by_key.items()],
        ref_template=SCHEMA_REF,
    )
    # All instances of a generic type have the same title, which client generators take as a name.
    schemas = {
        name: {key: value for key, value in schema.items() if key != "title"}
        for name, schema in definitions.get("$defs", {}).items()
    }
    schemas |= _list_definitions(operations)
    return {name: schema for (name, _), schema in found.items()}, schemas


def _describe_operation(
    operation: Operation, route: OperationRoute, outputs: dict[Any, Json]
) -> Json:
    schema = _make_input_schema(operation)
    fields, required = schema["properties"], schema["required"]
    errors = OPERATION_ERRORS
    if operation.mutates:
        errors = errors | CONFLICT
    if route.has_if_match:
        errors = errors | {412: "The record has another version."}
    if operation.takes_as_of:
        errors = errors | PAST_ERRORS
    item: Json = {
        "operationId": operation.name,
        "tags": [operation.noun],
        "summary": operation.summary,
        "parameters": _operation_parameters(operation, route, fields, required),
        "responses": _success_responses(operation, outputs)
        | {str(status): _error_response(text) for status, text in errors.items()},
    }
    if route.body_fields:
        body_schema = {
            "type": "object",
            "additionalProperties": False,
            "required": [name for name in required if name in route.body_fields],
            "properties": {name: fields[name] for name in route.body_fields},
        }
        item["requestBody"] = {
            # An empty body counts as an empty object.
            "required": bool(body_schema["required"]),
            "content": {JSON: {"schema": body_schema}},
        }
    return item


def _operation_parameters(
    operation: Operation, route: OperationRoute, fields: Json, required: list[str]
) -> list[Json]:
    parameters = _path_parameters(route.path)
    for name in route.query_fields:
        parameter = _parameter(
            "query",
            name,
            fields[name]["description"],
            schema=query_schema(fields[name]),
            required=name in required,
        )
        parameters.append(parameter)
    if selects_store(operation):
        store = "The memory_id of one of the bundle's stores. The default is the first store."
        parameters.append(_parameter("query", STORE, store))
    if operation.takes_as_of:
        parameters.append(_parameter("query", AS_OF, AS_OF_TEXT))
    headers: dict[str, str] = {}
    if route.has_if_match:
        headers["If-Match"] = "The record's ETag, several ETags, or *."
    if IF_ABSENT in route.body_fields:
        headers |= IF_ABSENT_HEADER
    if operation.mutates:
        headers |= IDEMPOTENCY_HEADERS
    elif operation.verb == "get":
        headers |= IF_NONE_MATCH_HEADER
    return parameters + _header_parameters(headers)


def _success_responses(operation: Operation, outputs: dict[Any, Json]) -> Json:
    responses = _list_successes(operation, outputs)
    return responses | _stopped_response(outputs) if operation.mutates else responses


def _stopped_response(outputs: dict[Any, Json]) -> Json:
    schema = {"anyOf": [outputs[ReviewPending], outputs[Dropped]]}
    return {"202": {"description": STOPPED_WRITE, "content": {JSON: {"schema": schema}}}}


def _list_successes(operation: Operation, outputs: dict[Any, Json]) -> Json:
    if operation.name not in outputs:
        return {"204": {"description": "Done."}}
    schema = outputs[operation.name]
    if returns_stored_text(operation):
        schema = {"anyOf": [schema, outputs[Reference]]}
    answer = {"description": "Done.", "content": {JSON: {"schema": schema}}}
    if operation.verb == "get":
        return {"200": answer, "304": {"description": "The client already has this version."}}
    if operation.verb != "create":
        return {"200": answer}
    responses = {"201": answer | {"description": "Created."}}
    if ACTION in {field.name for field in dataclasses.fields(operation.output)}:
        dry_run = " Or the answer to a dry run." if operation.has_dry_run else ""
        description = f"An existing record holds the content.{dry_run}"
        responses["200"] = answer | {"description": description}
    return responses


def _describe_route(
    route: web.AbstractRoute, path: str, outputs: dict[Any, Json], queries: dict[str, Json]
) -> Json:
    docs = get_route_docs(route.handler)
    if docs is None:
        raise LookupError(f"{route.method} {path} is undocumented; add @documented to its handler")
    module, name = route.handler.__module__.rpartition(".")[2], route.handler.__name__
    schemas = queries | dict(docs.query_schemas)
    parameters = _path_parameters(path) + [
        _parameter(
            "query", name, text, schema=schemas.get(name), required=name in docs.required_query
        )
        for name, text in docs.query.items()
    ]
    parameters += _header_parameters(docs.headers)
    item: Json = {
        "operationId": docs.ident or f"{module}.{name}",
        "tags": [find_group(route.handler.__module__)],
        "summary": (route.handler.__doc__ or "").partition("\n")[0],
        "parameters": parameters,
        "responses": {
            str(status): _describe_response(docs, status, outputs) for status in docs.responses
        },
    }
    if get_error_dialect(route.handler) is not None and route.method not in CACHEABLE_METHODS:
        item["responses"] |= _stopped_response(outputs)
    if docs.body:
        content = {docs.body_type: {"schema": outputs[docs.body_schema]}}
        item["requestBody"] = {
            "description": docs.body,
            "required": docs.needs_body,
            "content": content,
        }
    return item


def _describe_response(docs: RouteDocs, status: int, outputs: dict[Any, Json]) -> Json:
    text, shape = docs.responses[status], docs.schemas.get(status)
    if status >= 400 and shape is None:
        return _error_response(text, docs.media_type)
    if status in EMPTY_STATUSES:
        return {"description": text}
    content: Json = {docs.media_type: {}}
    if shape is not None:
        # A page with a schema also exists as JSON, for programs.
        content[JSON if docs.media_type == HTML else docs.media_type] = {"schema": outputs[shape]}
    if status == 200:
        content |= {kind: {} for kind in docs.other_types}
    return {"description": text, "content": content}


def _describe_access(route: web.AbstractRoute, responses: Json) -> Json:
    """Return the access rule, and the responses with the errors that every such route has."""
    access, docs = get_access(route.handler), get_route_docs(route.handler)
    errors = dict(COMMON_ERRORS)
    if route.method not in CACHEABLE_METHODS:
        errors |= CHANGE_ERRORS
    if "{" in str(route.resource):
        errors |= PATH_ERRORS
    if access != OPEN:
        errors |= AUTH_ERRORS
    media_type = docs.media_type if docs else JSON
    described = {str(status): _error_response(text, media_type) for status, text in errors.items()}
    security: list[Json] = [] if access == OPEN else [{"key": []}, {"api_key": []}]
    if is_reached_by_jwt(route.handler):
        security.append({"jwt": []})
    if access == OWN:
        security.insert(0, {})
    return {
        "responses": dict(sorted((described | responses).items())),
        "security": security,
        "x-scope": access,
    }


def _use_dialect(item: Json, dialect: ErrorDialect, path: str) -> Json:
    """Use the dialect's error schema, and add its parameters that name the pipeline."""
    content = {JSON: {"schema": {"$ref": SCHEMA_REF.format(model=dialect.model)}}}
    responses = {
        status: response | {"content": content} if status >= "400" else response
        for status, response in item["responses"].items()
    }
    # A head that is too long is rejected before its route is known.
    responses["400"]["content"] = content | PROBLEM
    ident = f"{dialect.name}.{item['operationId']}"
    named = path.startswith(PIPELINE_PREFIX)
    return item | {
        "operationId": f"{ident}.in_pipeline" if named else ident,
        "tags": [find_dialect_group(dialect.name, path)],
        "parameters": item["parameters"] + ([] if named else _pipeline_parameters(dialect)),
        "responses": responses,
    }


def _pipeline_parameters(dialect: ErrorDialect) -> list[Json]:
    names = (("query", dialect.pipeline_parameter), ("header", dialect.pipeline_header))
    return [_parameter(location, name, PATH_PARAMETERS["uid"]) for location, name in names if name]


def _error_response(text: str, media_type: str = JSON) -> Json:
    """Return an error response. A page shows its errors as a page."""
    return {"description": text, "content": PROBLEM | ({HTML: {}} if media_type == HTML else {})}


def _path_parameters(path: str) -> list[Json]:
    return [
        _parameter("path", name, PATH_PARAMETERS[name], required=True)
        for name in PATH_PARAMETER.findall(path)
    ]


def _header_parameters(headers: Mapping[str, str]) -> list[Json]:
    return [
        _parameter("header", name, text, schema=HEADER_SCHEMAS.get(name))
        for name, text in headers.items()
    ]


def _parameter(
    location: str, name: str, text: str, *, schema: Json | None = None, required: bool = False
) -> Json:
    parameter = {"in": location, "name": name, "description": text, "required": required}
    if schema and json_type(schema) == "object":
        return parameter | {"content": {JSON: {"schema": schema}}}
    return parameter | {"schema": schema or {"type": "string"}}


def _make_input_schema(operation: Operation) -> Json:
    """Return the schema of the fields that a caller may send."""
    schema = input_schema(operation)
    return {
        "properties": _share_references(schema["properties"]),
        "required": schema["required"],
    }


def _list_definitions(operations: Iterable[Operation]) -> dict[str, Json]:
    """Return the schemas that the input schemas name, by their names in the components.

    They have no titles, which client generators would take as names.
    """
    return {
        f"{name}Input": _share_references(
            {key: value for key, value in schema.items() if key != "title"}
        )
        for operation in operations
        for name, schema in input_schema(operation).get("$defs", {}).items()
    }


def _share_references(value: Any) -> Any:
    """Return a schema, or a part of it, with references into the components."""
    if isinstance(value, list):
        return [_share_references(one) for one in value]
    if not isinstance(value, dict):
        return value
    shared = {name: _share_references(one) for name, one in value.items()}
    ref = shared.get("$ref")
    if isinstance(ref, str) and ref.startswith(LOCAL_REF):
        shared["$ref"] = SHARED_REF.format(ref.removeprefix(LOCAL_REF))
    return shared

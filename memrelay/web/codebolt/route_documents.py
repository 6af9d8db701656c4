"""Documentation of the declared routes, derived from their operations."""

import dataclasses

from memrelay.memory.operations import Operation, input_schema
from memrelay.web.api.operation_routes import IN_HEADER
from memrelay.web.codebolt.body_shapes import make_body_shape
from memrelay.web.codebolt.declaration import PATH_FIELD, Route
from memrelay.web.codebolt.fields import Json
from memrelay.web.openapi.document import query_schema
from memrelay.web.openapi.route_docs import (
    IDEMPOTENCY_HEADERS,
    IF_MATCH_HEADER,
    IF_NONE_MATCH_HEADER,
)
from memrelay.web.openapi.shapes import Reference

ERRORS = {
    404: "The pipeline or the object does not exist.",
    422: "The input is invalid or was rejected. `errors` lists all faults.",
    503: "No worker serves the pipeline, or it is overloaded. Nothing was done.",
    504: "No answer in time. Retry-After tells when to retry.",
}
CONFLICT = {409: "The id or the name is taken."}
UNCHANGED = {304: "The client has this version."}
OTHER_VERSION = {412: "If-Match names another version."}


def document_route(route: Route, operation: Operation) -> Json:
    """Return the arguments of `documented`."""
    fields, required = input_schema(operation)["properties"], input_schema(operation)["required"]
    success = {route.status: route.description} | dict(route.other_statuses)
    shape = route.shape | Reference if operation.access == "write" else route.shape
    query = {name: target for name, (target, _) in route.query.items()}
    found: Json = {
        "responses": success | _describe_errors(operation),
        "query": {name: text for name, (_, text) in route.query.items()},
        "query_schemas": {name: query_schema(fields[target]) for name, target in query.items()},
        "required_query": tuple(name for name, target in query.items() if target in required),
        "headers": {name: text for name, (_, text) in route.headers.items()}
        | _describe_headers(operation),
        "schemas": {} if route.shape is None else dict.fromkeys(success, shape),
    }
    if route.body is not None:
        elsewhere = {*PATH_FIELD.findall(route.path), *route.fixed, *query.values()}
        found |= {
            "body": route.body.example,
            "body_schema": make_body_shape(route.name, operation.input, route.body),
            "needs_body": bool({*required} - elsewhere),
        }
    return found


def _describe_errors(operation: Operation) -> dict[int, str]:
    """Return the statuses other than success that only some routes have."""
    found = dict(ERRORS)
    if IN_HEADER in input_schema(operation)["properties"]:
        found |= OTHER_VERSION
    if _has_etag(operation):
        found |= UNCHANGED
    if operation.mutates and operation.access != "delete":
        found |= CONFLICT
    return found


def _describe_headers(operation: Operation) -> dict[str, str]:
    found = dict(IDEMPOTENCY_HEADERS) if operation.mutates else {}
    if IN_HEADER in input_schema(operation)["properties"]:
        found |= IF_MATCH_HEADER
    if _has_etag(operation):
        found |= IF_NONE_MATCH_HEADER
    return found


def _has_etag(operation: Operation) -> bool:
    """Return whether an operation reads an object with a version."""
    has_fields = dataclasses.is_dataclass(operation.output)
    names = [one.name for one in dataclasses.fields(operation.output)] if has_fields else []
    return not operation.mutates and "version" in names

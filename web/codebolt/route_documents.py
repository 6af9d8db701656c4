"""Documentation of the declared routes, derived from their operations."""

import dataclasses

from memrelay.memory.operation import Operation, input_schema
from memrelay.web.api.operation_routes import IN_HEADER
from memrelay.web.codebolt.body_shapes import make_body_shape
from memrelay.web.codebolt.declaration import Route
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


def _has_etag(operation: Operation) -> bool:
    """Return whether an operation reads an object with a version."""
    has_fields = dataclasses.is_dataclass(operation.output)
    names = [one.name for one in dataclasses.fields(operation.output)] if has_fields else []
    return not operation.mutates and "version" in names


def document_route(route: Route, operation: Operation) -> Json:
    """Return the arguments of `documented`."""
    has_version = IN_HEADER in input_schema(operation)["properties"]
    success = {route.status: route.description} | dict(route.other_statuses)
    responses = success | ERRORS | (OTHER_VERSION if has_version else {})
    has_etag = _has_etag(operation)
    responses |= UNCHANGED if has_etag else {}
    if operation.mutates and operation.access != "delete":
        responses |= CONFLICT
    headers = {name: text for name, (_, text) in route.headers.items()}
    headers |= IDEMPOTENCY_HEADERS if operation.mutates else {}
    headers |= IF_MATCH_HEADER if has_version else {}
    headers |= IF_NONE_MATCH_HEADER if has_etag else {}
    shape = route.shape | Reference if operation.access == "write" else route.shape
    required = input_schema(operation)["required"]
    found: Json = {
        "responses": responses,
        "query": {name: text for name, (_, text) in route.query.items()},
        "query_schemas": {
            name: query_schema(input_schema(operation)["properties"][target])
            for name, (target, _) in route.query.items()
        },
        "required_query": tuple(
            name for name, (target, _) in route.query.items() if target in required
        ),
        "headers": headers,
        "schemas": {} if route.shape is None else dict.fromkeys(success, shape),
    }
    if route.body is not None:
        shape = make_body_shape(route.name, operation.input, route.body)
        found |= {
            "body": route.body.example or "The fields.",
            "body_schema": shape,
            "needs_body": bool(required),
        }
    return found

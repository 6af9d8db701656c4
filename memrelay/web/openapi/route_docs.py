"""Documentation of handwritten routes, declared on each handler.

The OpenAPI document combines it with the first line of the handler's docstring.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from memrelay.web.openapi.shapes import AcceptedMessage, SettledMessage

JSON, HTML, TEXT = "application/json", "text/html", "text/plain"
FORM = "application/x-www-form-urlencoded"
ANY = "*/*"
PAGE_QUERY = {
    "limit": "The maximum number of items.",
    "cursor": "The `next_cursor` of the previous page.",
}
NUMERIC_CURSOR_SCHEMA = {"type": "string", "pattern": "^[0-9]{0,18}$"}
LOG_CURSOR_SCHEMA = {"type": "string", "pattern": "^([0-9]{1,18}-[0-9]{1,18})?$"}
WAIT_QUERY = {"wait": "How many seconds to wait for the results of the message."}
MESSAGE_ID_HEADERS = {
    "webhook-id": "A message with a known id has no second effect, even with another body.",
    "Idempotency-Key": "The same as webhook-id.",
}
IDEMPOTENCY_HEADERS = {
    "Idempotency-Key": "Repeating a call with its key has no second effect and returns the same "
    "answer. Using the key for another call is an error.",
    "webhook-id": "The same as Idempotency-Key.",
}
IF_MATCH_HEADER = {"If-Match": "The ETag of the version to replace, or *."}
IF_ABSENT_HEADER = {"If-None-Match": "*: write only if no entry has the key."}
IF_NONE_MATCH_HEADER = {
    "If-None-Match": "The ETag that the client already has. The answer is 304 if it is current."
}
CONFLICT = {409: "The id or the name is taken."}
MESSAGE_RESPONSES = {
    200: "With `wait`: the results.",
    202: "The message is stored and will run.",
    404: "The pipeline, swarm, or agent does not exist.",
    413: "The message is too long.",
    422: "The body is not a valid message.",
    504: "The message did not finish in time. It keeps running.",
}
# The schemas that belong to MESSAGE_RESPONSES.
MESSAGE_SCHEMAS = {200: SettledMessage, 202: AcceptedMessage}
# The handler attribute that holds the documentation. functools.wraps copies it.
_ATTRIBUTE = "memrelay_route_docs"
Declared = TypeVar("Declared", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class RouteDocs:
    """The documentation of one route, without the responses that any route may return.

    `responses`, `query`, and `headers` map a status or a name to its description. `body` describes
    the request body, "" for none. `body_type` and `body_schema` are its media type and type, and
    `needs_body` is whether it must be sent. `query_schemas` replaces the usual schemas of query
    parameters. The parameters in `required_query` must be sent.
    `ident` is the operationId of a route whose handler has moved to a module of another name.
    `media_type` is that of a successful response. `schemas` maps a status to the type of a JSON
    response, which a page has for programs. An error without a schema is problem JSON.
    `other_types` are further media types of the response 200.
    """

    responses: Mapping[int, str]
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    body_type: str = JSON
    body_schema: Any = Any
    needs_body: bool = True
    query_schemas: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    required_query: tuple[str, ...] = ()
    media_type: str = JSON
    ident: str = ""
    schemas: Mapping[int, Any] = field(default_factory=dict)
    other_types: tuple[str, ...] = ()


def documented(responses: Mapping[int, str], **fields: Any) -> Callable[[Declared], Declared]:
    """Document a handler. `fields` are those of RouteDocs."""

    def declare(handler: Declared) -> Declared:
        vars(handler)[_ATTRIBUTE] = RouteDocs(responses, **fields)
        return handler

    return declare


def get_route_docs(handler: object) -> RouteDocs | None:
    """Return a handler's documentation, or None."""
    found = getattr(handler, _ATTRIBUTE, None)
    return found if isinstance(found, RouteDocs) else None


def query_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field in the query string, which cannot be null."""
    found = {name: value for name, value in schema.items() if name not in ("title", "description")}
    kinds = [kind for kind in found.get("anyOf", ()) if kind.get("type") != "null"]
    if kinds:
        found["anyOf"] = kinds
    if found.get("default", "") is None:
        del found["default"]
    return found

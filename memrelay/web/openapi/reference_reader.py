"""Reads the API reference from the OpenAPI document."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memrelay.web.auth.access import OPEN, OWN
from memrelay.web.openapi.document import AUTH_ERRORS, CHANGE_ERRORS, COMMON_ERRORS
from memrelay.web.openapi.groups import GROUPS
from memrelay.web.openapi.reference import Body, Page, Parameter, Reference, Response, Route
from memrelay.web.openapi.route_docs import JSON
from memrelay.web.openapi.schema_text import EXAMPLES, SchemaReader
from memrelay.web.server.error_dialects import PIPELINE_PREFIX

Json = dict[str, Any]
# Errors that the reference describes once per page instead of once per route.
COMMON = tuple(
    (str(status), text)
    for status, text in sorted(
        [*COMMON_ERRORS.items(), *CHANGE_ERRORS.items(), *AUTH_ERRORS.items()]
    )
)
SCOPES = {OPEN: "No key is needed.", OWN: "The agent's token or signature is needed."}
# A header that has the same meaning as Idempotency-Key.
SECOND_NAME = "webhook-id"
MESSAGE = {"text": "/write The meeting is at 3pm"}
AGENT = {
    "agent_class": "wf_agent",
    "agent_alias": "keep",
    "agent_name": "keep",
    "agent_rec_swarm": "chat",
    "agent_send_swarm": "chat",
    "wf_diagram_webhook": "memory_write",
    "wf_call_webhook": True,
    "wf_webhook_args": {"memory_id": "instances/${pipeline_uid}/notes"},
}
BUNDLE = {"pipeline_name": "notes", "agents": [AGENT]}
LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
DEFINITION = EXAMPLES["definition"]
# Example bodies for schemas that allow more than they describe, by operationId or group.
BODIES: dict[str, Json] = {
    "messages": MESSAGE,
    "webhooks": MESSAGE,
    "pipelines.create": BUNDLE,
    "pipelines.replace": BUNDLE,
    "pipelines.check_only": BUNDLE,
    "mcp": LIST_TOOLS,
    "login.log_in": {"key": "mr_ID_SECRET"},
    "robutler.tool.use_tool": {"command": "view", "path": "/memories"},
    "codebolt.handlers.post_persistent_memory_types": DEFINITION,
    "codebolt.handlers.put_persistent_memory_types_id": DEFINITION,
    "codebolt.handlers.post_persistent_memory_validate": DEFINITION,
}


def read_reference(document: Json) -> Reference:
    """Return the reference of an OpenAPI document."""
    reader = SchemaReader(document["components"]["schemas"])
    by_group: dict[str, dict[tuple[str, str], Route]] = {}
    for path, methods in document["paths"].items():
        for method, item in methods.items():
            routes = by_group.setdefault(item["tags"][0], {})
            routes[method.upper(), path] = _read_route(reader, method.upper(), path, item)
    pages = [Page(name, GROUPS[name], _join_twins(by_group[name])) for name in by_group]
    order = list(GROUPS)
    return Reference(tuple(sorted(pages, key=lambda page: order.index(page.name))))


def _join_twins(routes: Mapping[tuple[str, str], Route]) -> tuple[Route, ...]:
    """Return the routes. One below the prefix of a pipeline becomes the alias of its twin."""
    twins = {(method, PIPELINE_PREFIX + path) for method, path in routes}
    return tuple(
        replace(route, alias=routes.get((method, PIPELINE_PREFIX + path)))
        for (method, path), route in routes.items()
        if (method, path) not in twins
    )


def _read_route(reader: SchemaReader, method: str, path: str, item: Json) -> Route:
    scope: str = item["x-scope"]
    responses = [
        _read_response(reader, status, response) for status, response in item["responses"].items()
    ]
    return Route(
        ident=item["operationId"],
        method=method,
        path=path,
        summary=item["summary"],
        scope=SCOPES.get(scope, scope),
        parameters=tuple(
            _read_parameter(reader, one) for one in item["parameters"] if one["name"] != SECOND_NAME
        ),
        body=_read_body(reader, item),
        responses=tuple(one for one in responses if (one.status, one.description) not in COMMON),
        common=tuple(one.status for one in responses if (one.status, one.description) in COMMON),
    )


def _read_parameter(reader: SchemaReader, parameter: Json) -> Parameter:
    schema = parameter.get("schema") or parameter["content"][JSON]["schema"]
    return Parameter(
        parameter["name"],
        parameter["in"],
        reader.describe_type(schema),
        parameter["description"],
        parameter["required"],
        reader.resolve(schema).get("type") == "array",
    )


def _read_body(reader: SchemaReader, item: Json) -> Body | None:
    if "requestBody" not in item:
        return None
    ((media_type, content),) = item["requestBody"]["content"].items()
    schema, ident = content["schema"], item["operationId"]
    example = BODIES.get(ident) or BODIES.get(item["tags"][0]) or reader.make_example(schema)
    description = item["requestBody"].get("description", "")
    return Body(media_type, description, reader.list_fields(schema), example)


def _read_response(reader: SchemaReader, status: str, response: Json) -> Response:
    description, is_success = response["description"], status < "300"
    for media_type, content in response.get("content", {}).items():
        schema = content.get("schema")
        if media_type != JSON or schema is None:
            return Response(status, description, media_type, ())
        fields = reader.list_fields(schema) if is_success else ()
        return Response(status, description, reader.describe_type(schema), fields)
    return Response(status, description, "", ())

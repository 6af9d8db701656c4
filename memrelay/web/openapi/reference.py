"""The API reference: the groups of the OpenAPI document with their routes, made for reading."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any
from urllib.parse import urlencode

from memrelay.web.auth.access import OPEN, OWN
from memrelay.web.openapi.document import AUTH_ERRORS, CHANGE_ERRORS, COMMON_ERRORS, PATH_PARAMETER
from memrelay.web.openapi.groups import GROUPS, SECTIONS, Group
from memrelay.web.openapi.route_docs import FORM, JSON
from memrelay.web.server.error_dialects import PIPELINE_PREFIX

# Levels of nested fields that are shown, and levels of an example.
MAX_LEVELS = 3
Json = dict[str, Any]
# Example values of fields by their names. Other text fields have their name as the example. Objects
# without required fields show the first of these fields that they have.
EXAMPLES: Json = {
    "content": "The meeting is at 3pm",
    "text": "The meeting is at 3pm",
    "query": "meeting",
    "intent": "Find notes about tea",
    "name": "notes",
    "title": "Notes",
    "guids": ["GUID"],
    "guid": "GUID",
    "memory_id": "notes",
    "key": "tea",
    "value": "green",
    "user": "anna",
    "agent": "assistant",
    "store": "assistant",
    "kind": "note",
    "scope": "notes",
    "namespace": "default",
    "definition": {
        "id": "recent_notes",
        "label": "Recent notes",
        "retrieval": {"pipeline": [{"type": "log_search", "instance": "notes"}]},
    },
    "reason": "Corrected by hand",
}
# The last part of a path whose call deletes data.
DESTRUCTIVE = re.compile(
    r"(erase|forget|clear|prune|remove|delete|drop|logout)(_\w+)?|batch-delete"
)
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


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object. `fields` are those of the objects that it holds."""

    name: str
    type: str
    description: str
    is_required: bool
    fields: tuple["Field", ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaReader:
    """Reads schemas. `definitions` are the schemas that references name."""

    definitions: Mapping[str, Json]

    def resolve(self, schema: Json) -> Json:
        """Return the schema that a reference names, or the first alternative that is not null."""
        if "$ref" in schema:
            return self.resolve(self.definitions[schema["$ref"].rpartition("/")[2]])
        if "properties" in schema:
            return schema
        kinds = _list_kinds(schema)
        return self.resolve(kinds[0]) if kinds else schema

    def list_fields(self, schema: Json, levels: int = MAX_LEVELS) -> tuple[Field, ...]:
        """Return the fields of an object, or of the objects that an array or a map holds."""
        found = self.resolve(schema)
        inner = found.get("items") or found.get("additionalProperties")
        if "properties" not in found:
            return self.list_fields(inner, levels) if isinstance(inner, dict) else ()
        required = found.get("required", ())
        return tuple(
            Field(
                name,
                self.describe_type(one),
                _find_description(one),
                name in required,
                self.list_fields(one, levels - 1) if levels > 1 else (),
            )
            for name, one in found["properties"].items()
        )

    def describe_type(self, schema: Json) -> str:
        """Return the type with its limits and default, for example `integer, 1 to 100`."""
        kinds = _list_kinds(schema)
        names = list(dict.fromkeys(self._describe_kind(kind) for kind in kinds or [schema]))
        can_be_null = len(kinds) < len(schema.get("anyOf", ()))
        text = " or ".join([*names, *(["null"] if can_be_null else [])])
        default = schema.get("default")
        return text if default in (None, "", [], {}) else f"{text}, default {_as_json(default)}"

    def _describe_kind(self, schema: Json) -> str:
        if "$ref" in schema:
            return self.describe_type(self.definitions[schema["$ref"].rpartition("/")[2]])
        values = schema.get("enum") or ([schema["const"]] if "const" in schema else None)
        if values:
            return " | ".join(_as_json(value) for value in values)
        kind = schema.get("type", "any JSON")
        if kind == "array":
            return f"array of {self.describe_type(schema.get('items', {}))}"
        name = kind if isinstance(kind, str) else " or ".join(kind)
        return name + _describe_limits(schema)

    def make_example(self, schema: Json, name: str = "") -> Any:
        """Return a short value of a schema: the required fields of an object, or its first."""
        if schema.get("examples"):
            return schema["examples"][0]
        found = self.resolve(schema)
        if found.get("examples"):
            return found["examples"][0]
        values = found.get("enum") or ([found["const"]] if "const" in found else None)
        if values:
            return values[0]
        if "properties" in found:
            return self._make_object(found)
        return self._make_plain(found, name)

    def _make_object(self, schema: Json) -> Json:
        fields = schema["properties"]
        names = list(schema.get("required", ()))
        if not names:
            names = [name for name in EXAMPLES if name in fields][:1] or list(fields)[:1]
        return {name: self.make_example(fields[name], name) for name in names}

    def _make_plain(self, schema: Json, name: str) -> Any:
        kind = schema.get("type", "string" if name in EXAMPLES else "object")
        kind = kind if isinstance(kind, str) else kind[0]
        if kind == "array":
            return EXAMPLES.get(name) or [
                self.make_example(schema.get("items", {}), name.removesuffix("s"))
            ]
        if kind in ("integer", "number"):
            return schema.get("default", max(schema.get("minimum", 1), 1))
        if kind == "object":
            example = EXAMPLES.get(name)
            return example if isinstance(example, dict) else {}
        return {"boolean": True, "null": None}.get(kind, EXAMPLES.get(name, name or "text"))


def _list_kinds(schema: Json) -> list[Json]:
    """Return the alternatives of a schema that are not null."""
    return [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]


def _find_description(schema: Json) -> str:
    return str(schema.get("description", ""))


def _describe_limits(schema: Json) -> str:
    """Return the limits of a value, for example `, 1 to 256 characters`, or ""."""
    ends: Sequence[tuple[str, str, str]] = (
        ("minLength", "maxLength", " characters"),
        ("minimum", "maximum", ""),
    )
    for low, high, unit in ends:
        if low in schema and high in schema:
            return f", {schema[low]:,} to {schema[high]:,}{unit}"
        if high in schema:
            return f", at most {schema[high]:,}{unit}"
        if low in schema:
            return f", at least {schema[low]:,}{unit}" if not unit else ", not empty"
    return ""


def _as_json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a route. `place` is path, query or header."""

    name: str
    place: str
    type: str
    description: str
    is_required: bool
    is_list: bool


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request."""

    media_type: str
    description: str
    fields: tuple[Field, ...]
    example: Any

    @property
    def text(self) -> str:
        """The example as indented JSON, or as a form."""
        if self.media_type == FORM:
            return urlencode(self.example)
        return json.dumps(self.example, indent=2, ensure_ascii=False)

    @property
    def line(self) -> str:
        """The example on one line."""
        if self.media_type == FORM:
            return self.text
        return json.dumps(self.example, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Response:
    """A response. `type` is "" without a body."""

    status: str
    description: str
    type: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """A route. `common` are the statuses of errors that most routes have.

    `alias` is the same route below the prefix that names a pipeline, or None.
    """

    ident: str
    method: str
    path: str
    summary: str
    scope: str
    parameters: tuple[Parameter, ...]
    body: Body | None
    responses: tuple[Response, ...]
    common: tuple[str, ...]
    alias: "Route | None" = None

    @property
    def is_destructive(self) -> bool:
        """Return whether a call deletes data."""
        last = self.path.rpartition("/")[2]
        return self.method == "DELETE" or DESTRUCTIVE.fullmatch(last) is not None

    def matches(self, words: list[str]) -> bool:
        """Return whether the route contains all of the words, which are in lower case."""
        text = f"{self.method} {self.path} {self.ident} {self.summary}".lower()
        return all(word in text for word in words)

    def make_curl(self, server: str) -> str:
        """Return an example command. Names of the path are placeholders in capitals."""
        path = PATH_PARAMETER.sub(lambda match: match[1].upper(), self.path)
        needed = [one for one in self.parameters if one.is_required and one.place == "query"]
        query = "&".join(f"{one.name}={one.name.upper()}" for one in needed)
        parts = ["curl", *([] if self.method == "GET" else ["-X", self.method])]
        parts.append(quote(server + path + (f"?{query}" if query else "")))
        if self.body:
            kind = quote(f"Content-Type: {self.body.media_type}")
            parts += ["-H", kind, "-d", quote(self.body.line)]
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Page:
    """A group with its routes in the order of their paths."""

    name: str
    group: Group
    routes: tuple[Route, ...]

    @property
    def count(self) -> int:
        """Return the number of operations, those below the prefix of a pipeline included."""
        return len(self.routes) + sum(route.alias is not None for route in self.routes)


@dataclass(frozen=True, slots=True)
class Reference:
    """All groups in the order of the overview."""

    pages: tuple[Page, ...]

    def find(self, name: str) -> Page | None:
        """Return a group, or None if there is none with this name."""
        return next((page for page in self.pages if page.name == name), None)

    def list_sections(self) -> Iterator[tuple[str, list[Page]]]:
        """Yield the sections of the overview with their groups."""
        for section in SECTIONS:
            yield section, [page for page in self.pages if page.group.section == section]

    def search(self, text: str) -> list[Page]:
        """Return the groups with only the routes that contain all words of a text."""
        words = text.lower().split()
        found = []
        for page in self.pages:
            title = f"{page.name} {page.group.title}".lower()
            left = [word for word in words if word not in title]
            routes = tuple(route for route in page.routes if route.matches(left))
            if routes:
                found.append(Page(page.name, page.group, routes))
        return found


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

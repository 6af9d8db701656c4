"""How operations are exposed: their routes, their scopes, and the output that a caller may see.

The HTTP route of an operation derives from its name and its input:

| verb | request |
|---|---|
| create, list | POST, GET /v1/pipelines/{uid}/<noun> |
| get, put, update, delete | GET, PUT, PATCH, DELETE /v1/pipelines/{uid}/<noun>/{guid} |
| another verb | POST /v1/pipelines/{uid}/<noun>/<verb>, or .../<noun>/{guid}/<verb> with a guid |
| another verb with a guid that changes nothing | GET /v1/pipelines/{uid}/<noun>/{guid}/<verb> |

Instead of a guid, an operation may require an id, a key or a uri.
"""

import dataclasses
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, NamedTuple

from memrelay.memory.operations import Operation, input_schema
from memrelay.web.openapi.shapes import Reference

METHODS = {
    "create": "POST",
    "list": "GET",
    "get": "GET",
    "put": "PUT",
    "update": "PATCH",
    "delete": "DELETE",
}
# Required fields with these names are in the path.
IN_PATH = ("guid", "id", "key", "uri")
# These methods take all other fields in the query string, the others in the body.
IN_QUERY = ("GET", "DELETE")
# This field is the If-Match header.
IN_HEADER = "if_version"
# The header of an answer with the state that a call with `as_of` has read.
AS_OF_HEADER = "Memrelay-As-Of"
# This field can also be the header If-None-Match: *. Its operation answers whether it `won`.
IF_ABSENT = "if_absent"
# The output field that shows whether a create made a new record.
ACTION = "action"
# The output fields that a caller gets from a write if it may not read the stored text.
REFERENCE_FIELDS = tuple(Reference.__annotations__)
# The output fields that hold the stored record.
STORED_FIELDS = ("entry", "fact", "procedure", "user")


class OperationRoute(NamedTuple):
    """The method and path of an operation, and the part of the request that holds each field."""

    method: str
    path: str
    path_fields: tuple[str, ...]
    query_fields: tuple[str, ...]
    body_fields: tuple[str, ...]
    has_if_match: bool

    @property
    def pattern(self) -> str:
        """The path as aiohttp takes it. A field in it may have any character."""
        pattern = self.path
        for name in self.path_fields:
            pattern = pattern.replace(f"{{{name}}}", f"{{{name}:[^/]+}}")
        return pattern


def route_of(operation: Operation) -> OperationRoute:
    """Return the route of an operation."""
    schema = input_schema(operation)
    fields = schema["properties"]
    in_path = tuple(name for name in IN_PATH if name in schema["required"])
    method = METHODS.get(operation.verb, "GET" if in_path and not operation.mutates else "POST")
    path = f"/v1/pipelines/{{uid}}/{operation.noun}" + "".join(f"/{{{name}}}" for name in in_path)
    if operation.verb not in METHODS:
        path += f"/{operation.verb}"
    rest = tuple(name for name in fields if name not in (*in_path, IN_HEADER))
    has_query = method in IN_QUERY
    return OperationRoute(
        method,
        path,
        in_path,
        rest if has_query else (),
        () if has_query else rest,
        IN_HEADER in fields,
    )


@cache
def returns_stored_text(operation: Operation) -> bool:
    """Return whether a write answers with text that the caller may not have sent."""
    if operation.access != "write" or operation.output is type(None):
        return False
    fields = {field.name for field in dataclasses.fields(operation.output)}
    return bool(fields & {"version", *STORED_FIELDS}) and (
        operation.verb != "create" or ACTION in fields
    )


def scopes_of(operation: Operation) -> tuple[str, ...]:
    """Return the scopes of which a caller of an operation needs one."""
    commands = operation.commands
    return (operation.access,) if commands is None else commands.scopes


def scope_of_command(operation: Operation, input: Mapping[str, Any]) -> str:
    """Return the scope that the command in an input needs, "" for operations without commands."""
    return "" if operation.commands is None else operation.commands.find_scope(input)


def hide_output(scopes: Collection[str], operation: Operation, output: Any) -> Any:
    """Return only ids and the version if the caller may not read the stored text in the output."""
    if "read" in scopes:
        return output
    if operation.commands is not None and operation.commands.hide_text is not None:
        return operation.commands.hide_text(output)
    if not returns_stored_text(operation):
        return output
    stored = dict(output)
    for name in STORED_FIELDS:
        stored |= output.get(name, {})
    return {name: stored[name] for name in REFERENCE_FIELDS if name in stored}

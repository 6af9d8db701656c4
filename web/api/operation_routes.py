"""Where each operation is found over HTTP: method and path follow from its name and from what it
takes, by one rule.

| verb | request |
|---|---|
| create, list | POST, GET /v1/pipelines/{uid}/<noun> |
| get, update, delete | GET, PATCH, DELETE /v1/pipelines/{uid}/<noun>/{guid}, or {id} |
| any other | POST /v1/pipelines/{uid}/<noun>/<verb>, or .../<noun>/{guid}/<verb> where it needs a
guid |
| ... that needs a guid and changes nothing | GET /v1/pipelines/{uid}/<noun>/{guid}/<verb> |
"""

import dataclasses
from typing import NamedTuple

from memrelay.memory.operation import Operation

METHODS = {"create": "POST", "list": "GET", "get": "GET", "update": "PATCH", "delete": "DELETE"}
IN_PATH = ("guid", "id")  # whichever is needed
IN_QUERY = ("GET", "DELETE")  # methods that take all else in the query
IN_HEADER = "if_version"  # If-Match
STORE = "store"  # a parameter of every operation


class OperationRoute(NamedTuple):
    """Of an operation: where it is, and in which part of the request each field of its input
    stands."""

    method: str
    path: str
    path_fields: tuple[str, ...]
    query_fields: tuple[str, ...]
    body_fields: tuple[str, ...]
    has_if_match: bool


def route_of(operation: Operation) -> OperationRoute:
    """By the rule."""
    fields = {field.name: field for field in dataclasses.fields(operation.input)}
    in_path = tuple(
        name for name in IN_PATH if name in fields and fields[name].default is dataclasses.MISSING
    )
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

"""Where each operation is found over HTTP: method and path follow from its name and from what it takes, by one rule.

| verb | request |
|---|---|
| create, list | POST, GET /v1/pipelines/{uid}/<noun> |
| get, update, delete | GET, PATCH, DELETE /v1/pipelines/{uid}/<noun>/{guid} |
| any other | POST /v1/pipelines/{uid}/<noun>/<verb>, or .../<noun>/{guid}/<verb> where it needs a guid |
| ... that needs a guid and changes nothing | GET /v1/pipelines/{uid}/<noun>/{guid}/<verb> |
"""
import dataclasses
from typing import NamedTuple

from memory.operation import Operation

METHODS = {"create": "POST", "list": "GET", "get": "GET", "update": "PATCH", "delete": "DELETE"}
BODILESS = ("GET", "DELETE")   # what else they take stands in the query
IN_PATH = "guid"
IN_HEADER = "if_version"   # If-Match
STORE = "store"            # a parameter of every operation


class Place(NamedTuple):
    """Of an operation: where it is, and in which part of the request each field of its input stands."""

    method: str
    path: str
    path_fields: tuple[str, ...]
    query_fields: tuple[str, ...]
    body_fields: tuple[str, ...]
    has_if_match: bool


def place_of(operation: Operation) -> Place:
    """By the rule."""
    fields = {field.name: field for field in dataclasses.fields(operation.input)}
    needs_guid = IN_PATH in fields and fields[IN_PATH].default is dataclasses.MISSING
    method = METHODS.get(operation.verb, "GET" if needs_guid and not operation.mutates else "POST")
    path = f"/v1/pipelines/{{uid}}/{operation.noun}" + f"/{{{IN_PATH}}}" * needs_guid
    if operation.verb not in METHODS:
        path += f"/{operation.verb}"
    in_path = (IN_PATH,) * needs_guid
    rest = tuple(name for name in fields if name not in (*in_path, IN_HEADER))
    return Place(method, path, in_path, rest if method in BODILESS else (), () if method in BODILESS else rest,
                 IN_HEADER in fields)

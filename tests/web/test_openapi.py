"""/openapi.json: complete and consistent with the declarations."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from memrelay.memory.operations import all_operations, input_schema, selects_store
from memrelay.web.api.operation_routes import route_of
from tests.support.contract import read_document
from tests.support.web_system import WebSystem
from tests.web.test_access import routes_of


@pytest.fixture(scope="module")
def document(web_system: WebSystem) -> dict[str, Any]:
    return web_system.get("/openapi.json").json


def test_a_server_gives_the_document_that_its_routes_make(document: dict[str, Any]) -> None:
    assert document == json.loads(json.dumps(read_document()))


def test_the_document_is_valid(document: dict[str, Any]) -> None:
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_every_route_is_in_the_document(document: dict[str, Any], tmp_path: Path) -> None:
    # A last slash that is optional is documented once.
    web_system = {
        (route.method, route.path.rstrip("/") or "/")
        for route in routes_of(tmp_path)
        if route.method != "HEAD"
    }

    item = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }

    assert item == web_system and len(item) > 30


def test_every_route_documents_its_summary_responses_and_access(
    document: dict[str, Any], tmp_path: Path
) -> None:
    scopes = {(route.method, route.path): route.access for route in routes_of(tmp_path)}
    items = [
        (method.upper(), path, item)
        for path, methods in document["paths"].items()
        for method, item in methods.items()
    ]

    for method, path, item in items:
        assert item["summary"].endswith((".", "}", ";")) or ":" in item["summary"], (
            path,
            item["summary"],
        )
        assert (
            any(status < "400" for status in item["responses"])
            and "default" not in item["responses"]
        )
        assert item["x-scope"] == scopes[method, path]
        needs_key = item["security"][:2] == [{"key": []}, {"api_key": []}]
        assert needs_key is (item["x-scope"] not in ("open", "own"))
    assert len({item["operationId"] for _, _, item in items}) == len(items)


@pytest.mark.parametrize("name", all_operations())
def test_an_operation_is_documented_as_declared(document: dict[str, Any], name: str) -> None:
    operation = all_operations()[name]
    place = route_of(operation)
    item = document["paths"][place.path][place.method.lower()]
    no_fields = {
        "uid",
        *(["store"] if selects_store(operation) else []),
        *(["as_of"] if operation.takes_as_of else []),
    }
    given = {one["name"] for one in item["parameters"] if one["in"] != "header"} - no_fields
    body = (
        item.get("requestBody", {})
        .get("content", {})
        .get("application/json", {})
        .get("schema", {})
        .get("properties", {})
    )

    assert item["operationId"] == name
    in_header = {"if_version"} if place.has_if_match else set()
    assert given | body.keys() | in_header == input_schema(operation)["properties"].keys()
    assert ("Idempotency-Key" in {one["name"] for one in item["parameters"]}) is operation.mutates
    assert ({"202", "410"} <= item["responses"].keys()) is operation.takes_as_of


def test_the_routes_of_agents_are_documented_for_their_callers(document: dict[str, Any]) -> None:
    paths, schemes = document["paths"], document["components"]["securitySchemes"]
    for_agents = {
        path
        for path, methods in paths.items()
        if any({"jwt": []} in item["security"] for item in methods.values())
    }

    assert schemes["api_key"]["name"] == "X-API-Key" and schemes["jwt"]["bearerFormat"] == "JWT"
    assert {"/api/kv", "/api/tools/memory", "/v1/pipelines/{uid}/items/{key}"} <= for_agents
    assert not [path for path in for_agents if "records" in path or "/api/v1/" in path]
    memory = "/api/storage/memory"
    needed = {
        method: [one["name"] for one in item["parameters"] if one["required"]]
        for method, item in paths[memory].items()
    }
    assert needed == {"get": [], "post": ["action"], "delete": ["action", "grantee"]}
    conflicts = {
        (method, path.removeprefix(memory))
        for path, methods in paths.items()
        if path.startswith(memory)
        for method, item in methods.items()
        if "409" in item["responses"]
    }
    assert conflicts == {("put", "/{key}"), ("delete", "/{key}")}


def test_every_reference_names_a_schema(document: dict[str, Any]) -> None:
    references = set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(document)))
    names = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}

    assert references <= names and "#/components/schemas/NewEdgeInput" in references


def test_every_tag_is_described(document: dict[str, Any]) -> None:
    used = {
        tag
        for methods in document["paths"].values()
        for item in methods.values()
        for tag in item["tags"]
    }

    assert {tag["name"] for tag in document["tags"]} == used
    assert all(tag["description"].endswith(".") for tag in document["tags"])


def test_the_document_suits_client_generators(document: dict[str, Any]) -> None:
    items = [item for methods in document["paths"].values() for item in methods.values()]
    bodies = [
        content
        for item in items
        if "requestBody" in item
        for content in item["requestBody"]["content"].values()
    ]
    kinds = {
        (one["in"], one["name"]): one["schema"]["type"]
        for item in items
        if "." in item["operationId"]
        for one in item["parameters"]
        if one["name"] in ("wait", "limit", "tags", "offset")
    }

    assert len(bodies) > 20 and all("schema" in body for body in bodies)
    assert not [
        name
        for name, schema in document["components"]["schemas"].items()
        if schema.get("title", name) != name
    ]
    assert kinds == {
        ("query", "wait"): "number",
        ("query", "limit"): "integer",
        ("query", "tags"): "array",
        ("query", "offset"): "integer",
    }


def test_filters_are_documented_with_fields_and_operators(document: dict[str, Any]) -> None:
    at = document["paths"]["/v1/pipelines/{uid}/records"]["get"]["parameters"]
    (parameter,) = [one for one in at if one["name"] == "filter"]
    body = document["paths"]["/v1/pipelines/{uid}/records/search"]["post"]["requestBody"][
        "content"
    ]["application/json"]

    for item in (
        parameter["content"]["application/json"]["schema"],
        body["schema"]["properties"]["filter"],
    ):
        schema = item["anyOf"][0]
        assert schema["properties"].keys() == {"and", "or", "not"} and schema["examples"]
        sorts = {
            pattern: set(held["properties"])
            for pattern, held in schema["patternProperties"].items()
        }
        assert sorts["^(tags)$"] == {"contains", "exists"} and any(
            "created_at" in pattern for pattern in sorts
        )


def test_the_schema_refuses_what_the_server_refuses(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]

    def is_valid(schema: dict[str, Any], value: Any) -> bool:
        return Draft202012Validator(schema | {"components": {"schemas": schemas}}).is_valid(value)

    send = document["paths"]["/v1/pipelines/{uid}/swarms/{swarm}/messages"]["post"]
    headers = {one["name"]: one["schema"] for one in send["parameters"] if one["in"] == "header"}
    for name in ("webhook-id", "Idempotency-Key"):
        assert [is_valid(headers[name], text) for text in ("", "x" * 257, "x")] == [0, 0, 1]
    assert [is_valid(schemas["NewSoatMemory"], {"name": name}) for name in ("", " ", "a")] == [
        False,
        False,
        True,
    ]
    for value, valid in (
        ({}, False),
        ({"document_ids": [None]}, False),
        ({"document_ids": ["a"]}, True),
        ({"query": " "}, False),
        ({"query": "tea", "memory_ids": None}, True),
    ):
        assert is_valid(schemas["SoatQuestion"], value) is valid, value
    overview = document["paths"]["/pipelines"]["get"]["parameters"]
    assert [is_valid(one["schema"], "0") for one in overview if one["name"] == "page"] == [True]

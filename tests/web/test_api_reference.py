"""The API reference below /docs: complete, short enough, and searchable without JavaScript."""

import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from memrelay.web.openapi.groups import GROUPS, SECTIONS
from memrelay.web.openapi.reference import read_reference
from tests.support.http import Answer
from tests.support.pages import lines_to_try, text_of
from tests.support.web_system import WebSystem

MAX_PAGE_BYTES = 300_000
# The types of a body whose example is JSON.
JSON = "application/json"


@pytest.fixture(scope="module")
def document(web_system: WebSystem) -> dict[str, Any]:
    return web_system.get("/openapi.json").json


@pytest.fixture(scope="module")
def pages(web_system: WebSystem) -> dict[str, Answer]:
    """Return the page of each group that the overview links."""
    links = re.findall(r'href="/docs/(\w+)"', web_system.get("/docs").body.decode())
    return {name: web_system.get(f"/docs/{name}") for name in links}


def test_the_overview_shows_each_group_with_its_number_of_routes(
    web_system: WebSystem, document: dict[str, Any], pages: dict[str, Answer]
) -> None:
    text = text_of(web_system.get("/docs"))
    items = [item for methods in document["paths"].values() for item in methods.values()]
    tags = [item["tags"][0] for item in items]

    assert pages.keys() == set(tags)
    for tag in pages:
        noun = "route" if tags.count(tag) == 1 else "routes"
        group = GROUPS[tag]
        assert f"{group.title} {group.description} {tags.count(tag)} {noun}" in text
        assert group.section in SECTIONS


def test_each_operation_is_on_exactly_one_page(
    document: dict[str, Any], pages: dict[str, Answer]
) -> None:
    for methods in document["paths"].values():
        for item in methods.values():
            ident = f'id="{item["operationId"]}"'
            holders = [name for name, page in pages.items() if ident in page.body.decode()]
            assert holders == item["tags"], ident


def test_each_path_and_summary_is_shown(document: dict[str, Any], pages: dict[str, Answer]) -> None:
    texts = {name: text_of(page) for name, page in pages.items()}

    for path, methods in document["paths"].items():
        for item in methods.values():
            (tag,) = item["tags"]
            assert path in texts[tag] and item["summary"].replace("`", " ")[:20] in texts[tag]


def test_every_page_is_short_self_contained_and_plain(pages: dict[str, Answer]) -> None:
    for name, page in pages.items():
        text = page.body.decode()
        links = re.findall(r'(?:src|href)="([^"]+)"', text)
        assert page.status == 200 and len(page.body) < MAX_PAGE_BYTES, name
        assert not [link for link in links if not link.startswith(("/", "#"))]
        assert not re.search(r'<script(?! src="/static/)|<style|\sstyle=|\son\w+=', text)
        assert "`" not in text_of(page)


def test_a_group_shows_fields_types_responses_and_a_command(
    web_system: WebSystem, pages: dict[str, Answer]
) -> None:
    text = text_of(pages["records"])

    for phrase in (
        "Scope: search .",
        "query string, not empty, required",
        "content string",
        "limit query, integer, 1 to 1,000",
        "array of string",
        "201 object Created.",
        "This action needs JavaScript.",
        "Send request",
    ):
        assert phrase in text, phrase
    assert (
        f"curl -X POST {web_system.url}/v1/pipelines/UID/records/search "
        """-H 'Content-Type: application/json' -d '{"query": "meeting"}'"""
    ) in lines_to_try(pages["records"])


def test_calls_that_delete_something_need_a_confirmation(pages: dict[str, Answer]) -> None:
    forms = [
        form
        for page in pages.values()
        for form in re.findall(r"<form data-try[^>]*>", page.body.decode())
    ]
    risky = {form for form in forms if re.search(r'DELETE"|/(erase|forget|prune|clear)"', form)}

    assert len(risky) > 20 and all("data-confirm" in form for form in risky)
    assert not [form for form in forms if 'method="GET"' in form and "data-confirm" in form]


def test_each_example_body_is_valid(document: dict[str, Any]) -> None:
    components = {"components": {"schemas": document["components"]["schemas"]}}
    bodies = {
        item["operationId"]: item["requestBody"]["content"][JSON]["schema"]
        for methods in document["paths"].values()
        for item in methods.values()
        if JSON in item.get("requestBody", {}).get("content", {})
    }
    examples = {
        route.ident: route.body.example
        for page in read_reference(document).pages
        for route in page.routes
        if route.body and route.ident in bodies
    }

    assert len(examples) > 100
    for ident, example in examples.items():
        faults = list(Draft202012Validator(bodies[ident] | components).iter_errors(example))
        assert faults == [], (ident, example)


def test_the_example_bundle_can_be_deployed(
    web_system: WebSystem, document: dict[str, Any]
) -> None:
    page = read_reference(document).find("pipelines")
    assert page is not None
    (body,) = [route.body for route in page.routes if route.ident == "pipelines.create"]
    assert body is not None

    deployed = web_system.post("/v1/pipelines", body.text, Content_Type=JSON)

    assert deployed.status == 201, deployed


def test_the_filter_finds_routes_by_words(web_system: WebSystem) -> None:
    found = text_of(web_system.get("/docs?q=Search+RECORDS"))
    nothing = web_system.get("/docs?q=%3Cscript%3Exylophone")

    assert "/v1/pipelines/{uid}/records/search" in found and "routes for" in found
    assert "/v1/pipelines/{uid}/kv/{key}" not in found
    assert "No matches." in text_of(nothing) and b"<script>xylophone" not in nothing.body


def test_an_unknown_group_is_the_usual_missing_page(web_system: WebSystem) -> None:
    page = web_system.get("/docs/xylophone")

    assert page.status == 404 and "has no group 'xylophone'" in text_of(page)

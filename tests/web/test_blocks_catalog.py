"""GET /v1/blocks and /v1/bundle.schema.json: what an editor of pipelines knows about bundles."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from memrelay.blocks.registry import built_in_blocks
from memrelay.pipelines.block_catalog import GROUP_NAMES
from memrelay.pipelines.schema import json_schema
from tests.support.http import ask
from tests.support.keys import make_key
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

BLOCK = '''"""shout: send the text in capitals. It is loud."""

from pydantic import Field

from memrelay import AsyncCall, BlockArgs, Message, block


class ShoutArgs(BlockArgs):
    """How loud."""

    marks: int = Field(default=1, le=3)
    """Exclamation marks."""


@block("shout", ShoutArgs)
async def shout(call: AsyncCall, args: ShoutArgs) -> Message:
    """Return the text."""
    return call.reply(call.text.upper() + "!" * args.marks)
'''


@pytest.fixture(scope="module")
def catalog(web_system: WebSystem) -> dict[str, Any]:
    return {one["name"]: one for one in web_system.get("/v1/blocks").json["items"]}


def test_every_block_of_memrelay_has_a_group_a_summary_and_a_schema(
    catalog: dict[str, Any],
) -> None:
    assert catalog.keys() == built_in_blocks().keys()
    for one in catalog.values():
        Draft202012Validator.check_schema(one["args_schema"])
        assert one["group"] in GROUP_NAMES[:-1], one["name"]
        summary = one["summary"]
        assert summary[0].isupper() and summary[-1] == "." and "seed" not in summary
        assert "docs/" not in one["description"]


def test_fields_have_types_defaults_help_and_formats(catalog: dict[str, Any]) -> None:
    fields = {name: one["args_schema"].get("properties", {}) for name, one in catalog.items()}
    search, write = fields["memory_search"], fields["memory_write"]

    assert fields["regex_match"]["pattern"]["format"] == "regex"
    assert fields["json_map"]["expression"]["format"] == "jmespath"
    assert write["content"]["format"] == "jmespath"
    assert search["output_template"]["format"] == "template"
    assert fields["webhook_send"]["secret"]["format"] == "secret"
    assert fields["agent"]["api_key"]["format"] == "secret"
    assert write["memory_id"]["format"] == search["memory_id"]["format"] == "store"
    assert fields["http_request"]["retries"] | {"description": ""} == {
        "type": "integer",
        "minimum": 0,
        "maximum": 100,
        "default": 8,
        "title": "Retries",
        "description": "",
    }
    assert all(field.get("description") for field in write.values())


def test_blocks_that_need_a_service_and_chat_agents_are_marked(catalog: dict[str, Any]) -> None:
    services = {name for name, one in catalog.items() if one["needs_service"]}
    classes = {name for name, one in catalog.items() if one["agent_class"] == name}

    assert services == {"agent", "extract", "summarize", "http_request", "webhook_send"}
    assert classes == {"chat_agent", "viewer_agent"}
    assert not any(one["is_own"] or one["is_async"] for one in catalog.values())


@pytest.fixture
def with_own_blocks(tmp_path: Path) -> Iterator[WebSystem]:
    (tmp_path / "shout.py").write_text(BLOCK)
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    with WebSystem(worker=False, BLOCKS__PATHS=str(tmp_path)) as web_system:
        yield web_system


@pytest.mark.slow
def test_own_blocks_are_listed_and_broken_ones_are_not(with_own_blocks: WebSystem) -> None:
    catalog = {one["name"]: one for one in with_own_blocks.get("/v1/blocks").json["items"]}
    shout = catalog["shout"]

    assert "broken" not in catalog
    assert (shout["group"], shout["is_own"], shout["is_async"]) == ("own", True, True)
    assert shout["summary"] == "Send the text in capitals."
    assert shout["args_schema"]["properties"]["marks"]["maximum"] == 3


def test_the_schema_of_a_bundle_has_an_etag(web_system: WebSystem) -> None:
    first = web_system.get("/v1/bundle.schema.json")
    known = {"If-None-Match": first.headers["etag"]}
    again = ask(web_system.url, "GET", "/v1/bundle.schema.json", headers=known)

    assert first.json == json_schema()
    assert (again.status, again.body) == (304, b"")


def test_a_key_needs_the_scope_read(keyed: WebSystem) -> None:
    key = make_key(keyed.system.root, "publish")
    paths = ("/v1/blocks", "/v1/bundle.schema.json", "/v1/pipeline-templates")

    def get_statuses() -> list[int]:
        headers = {"Authorization": f"Bearer {key.text}"}
        return [ask(keyed.url, "GET", path, headers=headers).status for path in paths]

    wait_for(lambda: 401 not in get_statuses(), "the key is known")
    assert get_statuses() == [403, 403, 403]

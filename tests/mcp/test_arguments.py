"""Arguments as clients send them: what is read, what is ignored, and what is refused."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from memrelay.web.mcp.arguments import CLIENT_METADATA, read_arguments
from memrelay.web.mcp.tool import ToolError
from memrelay.web.mcp.tool_handlers import TOOLSETS
from tests.support.mcp_tools import tools_on_file

TOOLS = {tool.name: tool for tools in TOOLSETS.values() for tool in tools}
ADA = {"name": "Ada", "entityType": "person", "observations": ["likes tea"]}
TEA = {"query": "tea"}
NOTE = {"content": "tea"}


def read(tool: str, sent: dict[str, Any]) -> dict[str, Any]:
    return read_arguments(TOOLS[tool], sent, takes_pipeline=False)


def refuse(tool: str, sent: dict[str, Any]) -> str:
    with pytest.raises(ToolError) as refused:
        read(tool, sent)
    return str(refused.value)


@pytest.mark.parametrize(
    ("tool", "sent", "expected"),
    [
        ("memory_search", {"limit": "5"}, {"limit": 5}),
        ("memory_search", {"limit": 5.0}, {"limit": 5}),
        ("memory_search", {"kind": None, "scope": ""}, {"scope": ""}),
        ("memory_search", {"limit": 10, "mode": "hybrid"}, {}),
        ("memory_search", {"explain": "true"}, {"explain": True}),
        ("memory_search", {"filter": '{"owner": "Ada"}'}, {"filter": {"owner": "Ada"}}),
        ("memory_search", {"tags": "home, garden"}, {"tags": ["home", "garden"]}),
        ("memory_search", {"tags": '["home"]'}, {"tags": ["home"]}),
        ("memory_search", {"tags": ""}, {}),
        ("memory_recall", {"min_score": "1"}, {"min_score": 1}),
        ("memory_recall", {"min_score": 0}, {"min_score": 0}),
        ("memory_change", {"if_version": '["0-0"]', "restore": "0"},
         {"if_version": ["0-0"], "restore": 0}),
        ("create_entities", {"entities": orjson.dumps([ADA]).decode()}, {"entities": [ADA]}),
        ("create_entities", {"entities": [ADA | {"observations": '["likes tea"]'}]},
         {"entities": [ADA]}),
        ("memory", {"view_range": "[1, 2]", "path": "/memories"},
         {"view_range": [1, 2], "path": "/memories"}),
        ("memory", {"view_range": ["1", 2.0]}, {"view_range": [1, 2]}),
        ("read_graph", {"random_string": "dummy"}, {}),
    ],
)  # fmt: skip
def test_an_argument_with_one_meaning_is_read(
    tool: str, sent: dict[str, Any], expected: dict[str, Any]
) -> None:
    required = {
        "memory_search": TEA,
        "memory_recall": TEA,
        "memory_change": {"guid": "g"},
        "memory": {"command": "view"},
    }.get(tool, {})

    arguments = read(tool, required | sent)

    assert arguments == required | expected
    assert orjson.dumps(arguments) == orjson.dumps(required | expected)


@pytest.mark.parametrize(
    ("tool", "sent", "fault"),
    [
        ("memory_search", {"limit": "five"},
         '/limit: must be a whole number, and "five" is not; send it like "limit": 10'),
        ("memory_search", {"limit": 5.5}, "/limit: must be a whole number, and 5.5 is not"),
        ("memory_search", {"limit": "5.0"}, '/limit: must be a whole number, and "5.0" is not'),
        ("memory_search", {"limit": "5" * 19}, "/limit: must be a whole number"),
        ("memory_search", {"limit": True}, "/limit: must be a whole number, and true is not"),
        ("memory_recall", {"min_score": "0.5"}, 'send it like "min_score": 0.5'),
        ("memory_search", {"explain": "yes"}, 'must be true or false, and "yes" is not'),
        ("memory_search", {"filter": "owner=Ada"}, 'send it like "filter": {"name":"value"}'),
        ("memory_search", {"tags": "[home"}, 'send it like "tags": ["text"]'),
        ("memory_search", {"tags": ["home", 7]}, "/tags/1: must be a text, and 7 is not"),
        ("memory_change", {"guid": "g", "if_version": "0-0"}, 'like "if_version": ["text"]'),
        ("memory_write", {"content": 5}, '/content: must be a text, and 5 is not'),
        ("memory_write", {"data": '{"n": 123456789012345678901}'}, "/data: must be an object"),
        ("create_entities", {"entities": [ADA | {"observations": "likes tea"}]},
         '/entities/0/observations: must be a list, and "likes tea" is not'),
        ("memory_search", {"tag": "home"},
         "/tag: is no argument of memory_search; did you mean `tags`?"),
        ("memory_search", {"sing": True}, "/sing: is no argument of memory_search; remove it"),
    ],
)  # fmt: skip
def test_an_argument_with_several_meanings_is_refused_and_the_form_is_shown(
    tool: str, sent: dict[str, Any], fault: str
) -> None:
    defaults: dict[str, dict[str, Any]] = {"memory_search": TEA, "memory_recall": TEA}
    defaults["memory_write"] = NOTE

    assert fault in refuse(tool, defaults.get(tool, {}) | sent)


def test_metadata_of_clients_is_ignored_unless_a_tool_has_an_argument_of_that_name() -> None:
    metadata = dict.fromkeys(CLIENT_METADATA, "x")

    assert read("memory_search", TEA | metadata) == TEA
    for tool in TOOLS.values():
        named = CLIENT_METADATA & tool.input_schema["properties"].keys()
        assert not named, "an argument of this name is read, so test that it is"


def test_a_call_with_many_faults_lists_the_first_ones() -> None:
    unknown = refuse("memory_search", TEA | {f"k{number}": 1 for number in range(10_000)})
    invalid = refuse("memory_search", TEA | {"tags": [1] * 100_000})

    for text in (unknown, invalid):
        assert text.count("\n") == 21 and len(text) < 2_000


def test_a_text_may_not_hide_more_keys_than_a_request_may_have() -> None:
    wide = {str(number): number for number in range(10_001)}

    assert "/data: must be an object" in refuse(
        "memory_write", NOTE | {"data": orjson.dumps(wide).decode()}
    )


def test_a_client_that_sends_all_defaults_can_use_each_form_of_a_tool(tmp_path: Path) -> None:
    with tools_on_file(tmp_path / "notes.db") as call:
        guid = call("memory_write", content="tea", kind="observation")["guid"]
        empty = {"kind": "", "scope": "", "cursor": "", "memory": "", "store": ""}

        grown = call(
            "memory_write", content="milk", append_to=guid, kind="observation", key="", owner=""
        )
        found = call("memory_read", guid=guid, order="asc", limit=20, **empty)
        listed = call("memory_read", **empty | {"guid": "", "memory": "*"})

    assert grown["guid"] == guid and found["content"] == "tea\nmilk"
    assert listed["items"] == []

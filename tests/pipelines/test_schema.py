"""The JSON Schema of a bundle."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema_rs import Draft202012Validator

from memrelay.blocks.registry import built_in_blocks
from memrelay.pipelines.bundle import AgentSpec, Bundle, StoreSpec, SwarmSpec
from memrelay.pipelines.check import check
from memrelay.pipelines.schema import json_schema, rendered
from tests.pipelines.builders import UID, make_block, make_bundle, make_memory

FILE = Path(__file__).resolve().parents[2] / "docs" / "bundle.schema.json"


def test_the_file_is_up_to_date() -> None:
    assert FILE.read_bytes() == rendered(), (
        "run python -m memrelay.pipelines.schema > docs/bundle.schema.json"
    )


def test_every_key_of_an_agent_is_described() -> None:
    assert json_schema()["$defs"]["AgentSpec"]["properties"].keys() == AgentSpec.keys()


def test_every_block_has_its_arguments_in_the_schema() -> None:
    rules = json_schema()["$defs"]["AgentSpec"]["allOf"]

    names = [held["const"] for rule in rules for held in rule["if"]["properties"].values()]

    assert names == [*built_in_blocks(), "ai_agent"]


def test_every_reference_resolves() -> None:
    schema = json_schema()
    refs = {
        re.split('["/]', part)[0]
        for part in orjson.dumps(schema).decode().split('"$ref":"#/$defs/')[1:]
    }

    assert refs <= schema["$defs"].keys()
    assert {"Bundle", "AgentSpec", "SwarmSpec", "StoreSpec", "WriteArgs"} <= refs


@pytest.mark.parametrize("tags", ["", "important,fact", '["important","fact"]', ["important"], []])
def test_a_list_as_text_is_valid_for_the_schema_and_the_check(tags: str | list[str]) -> None:
    searching = make_block(
        "knowledge_search",
        {"memory_id": "instances/${pipeline_uid}/m", "memories": tags, "tags": tags},
    )
    bundle = make_bundle(
        make_memory(wf_webhook_args={"memory_id": "instances/${pipeline_uid}/m", "tags": tags}),
        searching,
    )

    assert not list(Draft202012Validator(json_schema()).iter_errors(bundle))
    assert not check(bundle).faults


def test_too_many_memories_are_invalid_for_the_schema_and_the_check() -> None:
    names = [str(number) for number in range(101)]
    bundle = make_bundle(
        make_block("knowledge_search", {"memory_id": "instances/a/m", "memories": names})
    )

    assert list(Draft202012Validator(json_schema()).iter_errors(bundle))
    assert check(bundle).faults


VALUES: tuple[Any, ...] = (
    "",
    None,
    0,
    1,
    -1,
    2,
    0.5,
    True,
    False,
    "true",
    "True",
    "yes",
    "5",
    "-1",
    [],
    ["a"],
    ["a", 1],
    [None],
    {},
    {"a": 1},
    "a,b",
    "${pipeline_uid}",
    "a{b",
    "x" * 70_000,
    "x" * 129,
    "\x00",
    "../x",
    "a/b",
    "a/${pipeline_uid}",
    "ims",
    "q",
    "public",
    "asc",
    "env:A",
    "env:1",
    "file:/x",
    "hybrid",
    "agent",
    {"kind": {"eq": "a"}},
    {"kind": {"eq": None}},
    {"kind": {"in": ["a", None]}},
    {"key": {"eq": None}},
    {"kynd": {"eq": "a"}},
    {"tags": {"eq": "a"}},
    {"created_at": {"gt": None}},
)
MEANT = (  # well-formed values without a meaning, which only the check finds
    "there is no block",
    "the block works only on",
    "not JSON",
    "must be a JSON object",
    "unknown language",
    "unknown time zone",
    "the pattern has no group",
    "RE2 refuses",
    "recency and importance",
    "`rerank` changes the order",
    "an agent that publishes needs a name",
    "output_template: ",
    "give either `recipe`",
    "the definition has",
    "must be networks",
    "only the sender meta",
    "not JMESPath",
    "on_mismatch has no effect",
    "template: ",
)


def _bundle(
    of_agent: dict[str, Any], args: dict[str, Any], block: str = "memory_write"
) -> dict[str, Any]:
    needed = {"pattern": "^/(x)"} if block.startswith("regex_") else {}
    needed |= {"expression": "a"} if block.startswith("json_") else {}
    needed |= {"template": "a"} if block == "template" else {}
    sends = block in ("http_request", "webhook_send")
    needed |= {"url": "https://a.example/"} if sends else {}
    known = built_in_blocks()[block].args.model_fields
    stored = {"memory_id": "instances/${pipeline_uid}/m"} if "memory_id" in known else {}
    kind = {"agent_class": block} if built_in_blocks()[block].handle is None else {}
    return make_bundle(make_block(block, stored | needed | args) | kind | of_agent)


def _tried() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Return a valid bundle with one changed value: (place, value, bundle)."""
    for value in VALUES:
        for key in sorted(AgentSpec.keys()):
            yield key, value, _bundle({key: value}, {})
        for name, block in built_in_blocks().items():
            for key in block.args.model_fields:
                yield f"{name}.{key}", value, _bundle({}, {key: value}, name)
        for key in sorted(Bundle.keys()):
            yield key, value, _bundle({}, {}) | {key: value}
        for key in sorted(SwarmSpec.keys()):
            yield (
                f"swarms.{key}",
                value,
                _bundle({}, {}) | {"swarms": [{"name": "chat"} | {key: value}]},
            )
        for key in sorted(StoreSpec.keys()):
            yield (
                f"stores.{key}",
                value,
                _bundle({}, {}) | {"stores": [{"memory_id": "instances/a/m"} | {key: value}]},
            )


def _is_quoted(value: object) -> bool:
    """Return whether the value is a number or flag as text, or null (the same as absent)."""
    return value is None or value in ("true", "True", "5", "-1")


def test_the_schema_and_the_check_agree_on_every_form() -> None:
    """The schema may accept values that only their meaning forbids. The check may accept null and
    values as text."""
    validator, differ = Draft202012Validator(json_schema()), []
    for place, value, bundle in _tried():
        rules = [
            fault.rule
            for fault in check(bundle, uid=None if place == "pipeline_uid" else UID).faults
        ]
        takes = validator.is_valid(bundle)
        if (takes and not all(rule.startswith(MEANT) for rule in rules)) or (
            not takes and not rules and not _is_quoted(value)
        ):
            differ.append((place, str(value)[:40], rules[:1]))

    assert differ == []

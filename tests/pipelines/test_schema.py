"""The JSON Schema of a bundle."""

from pathlib import Path

import orjson
import pytest
from jsonschema import Draft202012Validator

from blocks.registry import all_blocks
from pipelines.bundle import AgentSpec
from pipelines.check import check
from pipelines.schema import json_schema, rendered
from tests.pipelines.builders import make_block, make_bundle, make_memory

FILE = Path(__file__).resolve().parents[2] / "docs" / "bundle.schema.json"


def test_the_file_is_current() -> None:
    assert FILE.read_bytes() == rendered(), "run python -m pipelines.schema > docs/bundle.schema.json"


def test_every_key_of_an_agent_is_described() -> None:
    assert json_schema()["$defs"]["AgentSpec"]["properties"].keys() == AgentSpec.keys()


def test_every_block_has_its_arguments_in_the_schema() -> None:
    rules = json_schema()["$defs"]["AgentSpec"]["allOf"]

    names = [held["const"] for rule in rules for held in rule["if"]["properties"].values()]

    assert names == list(all_blocks())


def test_every_reference_leads_somewhere() -> None:
    schema = json_schema()
    refs = {part.split('"')[0] for part in orjson.dumps(schema).decode().split('"$ref":"#/$defs/')[1:]}

    assert refs <= schema["$defs"].keys()
    assert {"Bundle", "AgentSpec", "SwarmSpec", "StoreSpec", "WriteArgs"} <= refs


@pytest.mark.parametrize("tags", ["", "important,fact", '["important","fact"]', ["important"], []])
def test_lists_are_taken_as_text_too_as_the_check_takes_them(tags: str | list[str]) -> None:
    searching = make_block("knowledge_search", {"memory_id": "instances/${pipeline_uid}/m", "memories": tags, "tags": tags})
    bundle = make_bundle(make_memory(wf_webhook_args={"memory_id": "instances/${pipeline_uid}/m", "tags": tags}), searching)

    assert not list(Draft202012Validator(json_schema()).iter_errors(bundle))
    assert not check(bundle).faults


def test_too_many_memories_are_wrong_for_the_schema_and_for_the_check() -> None:
    names = [str(number) for number in range(101)]
    bundle = make_bundle(make_block("knowledge_search", {"memory_id": "instances/a/m", "memories": names}))

    assert list(Draft202012Validator(json_schema()).iter_errors(bundle))
    assert check(bundle).faults

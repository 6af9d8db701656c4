"""The JSON Schema of a bundle."""

from pathlib import Path

import orjson

from blocks.registry import all_blocks
from pipelines.bundle import AgentSpec
from pipelines.schema import json_schema, rendered

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

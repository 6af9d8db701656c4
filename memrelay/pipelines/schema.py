"""The JSON Schema of a bundle: `python -m memrelay.pipelines.schema > docs/bundle.schema.json`."""

import sys
from typing import Any

import orjson
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from memrelay.blocks.contract import Block
from memrelay.blocks.registry import built_in_blocks
from memrelay.pipelines import bundle as forms
from memrelay.pipelines.agents import ai_block
from memrelay.pipelines.bundle import (
    AI_CLASS,
    AgentSpec,
    Bundle,
    DeclaredEndpoint,
    Part,
    StoreSpec,
    SwarmSpec,
)

Schema = dict[str, Any]


def json_schema() -> Schema:
    """Return the schema (draft 2020-12). `$defs` has the arguments of every built-in block."""
    blocks = built_in_blocks()
    ai_args = ai_block().args
    models: list[type[BaseModel]] = [Bundle, ai_args, *(block.args for block in blocks.values())]
    refs, schema = models_json_schema([(model, "validation") for model in models])
    args = {name: refs[block.args, "validation"] for name, block in blocks.items()}
    for part in (Bundle, AgentSpec, SwarmSpec, StoreSpec, DeclaredEndpoint):
        schema["$defs"][part.__name__] |= _key_names(part)
    for block in blocks.values():
        if "memory_id" in block.args.model_fields:
            name = str(args[block.name]["$ref"]).removeprefix("#/$defs/")
            schema["$defs"][name]["properties"]["memory_id"] |= forms.MEMORY_ID
    schema["$defs"]["AgentSpec"] |= forms.CALLS | {
        "allOf": [
            *(_args_rule(block, args[block.name]) for block in blocks.values()),
            _ai_rule(ai_args, refs[ai_args, "validation"]),
        ]
    }
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Memrelay bundle"}
    return head | {"$ref": "#/$defs/Bundle"} | schema


def rendered() -> bytes:
    """Return the contents of docs/bundle.schema.json."""
    return orjson.dumps(json_schema(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _key_names(part: type[Part]) -> Schema:
    """Allow only known keys with a reserved prefix, and all other keys."""
    if not part.prefixes:
        return {}
    reserved = f"^({'|'.join(part.prefixes)})"
    return {
        "propertyNames": {"anyOf": [{"enum": sorted(part.keys())}, {"not": {"pattern": reserved}}]}
    }


def _args_rule(block: Block, args: Schema) -> Schema:
    """Require the block's arguments as an object or as JSON text, if the block is selected."""
    key = "agent_class" if block.handle is None else "wf_diagram_webhook"
    text = {"type": "string", "contentMediaType": "application/json", "contentSchema": args}
    rule: Schema = {"properties": {"wf_webhook_args": {"anyOf": [args, text]}}}
    if any(field.is_required() for field in block.args.model_fields.values()):
        rule["required"] = ["wf_webhook_args"]
    return {"if": {"properties": {key: {"const": block.name}}, "required": [key]}, "then": rule}


def _ai_rule(args: type[BaseModel], ref: Schema) -> Schema:
    """Require valid keys of an ai_agent."""
    fields = {field.alias or name: field for name, field in args.model_fields.items()}
    return {
        "if": {"properties": {"agent_class": {"const": AI_CLASS}}, "required": ["agent_class"]},
        "then": {
            "properties": {key: {"$ref": f"{ref['$ref']}/properties/{key}"} for key in fields},
            "required": [key for key, field in fields.items() if field.is_required()],
        },
    }


if __name__ == "__main__":
    sys.stdout.buffer.write(rendered())

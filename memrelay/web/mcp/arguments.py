"""Validation of a tool's arguments against its input schema."""

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from memrelay.web.mcp.failures import refuse
from memrelay.web.mcp.tool import JsonObject, Tool

PIPELINE = "pipeline"
PIPELINE_SCHEMA = {"type": "string", "description": "The uid of the pipeline."}
# Characters of a value that an error repeats.
MAX_RULE_CHARACTERS = 300


def schema_with_pipeline(tool: Tool, *, is_required: bool) -> JsonObject:
    """Return the input schema with the argument `pipeline`."""
    schema = tool.input_schema
    fields = {PIPELINE: PIPELINE_SCHEMA, **schema.get("properties", {})}
    required = list(schema.get("required", ()))
    return {
        **schema,
        "properties": fields,
        "required": [PIPELINE, *required] if is_required else required,
    }


def check_arguments(tool: Tool, arguments: JsonObject, *, takes_pipeline: bool) -> None:
    """Raise ToolError with every fault of the arguments."""
    validator = _validator(ToolKey(tool), takes_pipeline)
    if validator.is_valid(arguments):
        return
    faults = sorted(validator.iter_errors(arguments), key=lambda fault: fault.json_path)
    raise refuse(f"the arguments of {tool.name} break its schema:", map(_describe, faults))


def take_pipeline(arguments: JsonObject) -> tuple[str | None, JsonObject]:
    """Return the argument `pipeline`, None if it is absent, and the other arguments."""
    others = {name: value for name, value in arguments.items() if name != PIPELINE}
    return arguments.get(PIPELINE), others


class ToolKey:
    """A tool as a key of the cache: schemas are dictionaries, which have no hash."""

    __slots__ = ("tool",)

    def __init__(self, tool: Tool) -> None:
        self.tool = tool

    def __hash__(self) -> int:
        return id(self.tool)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolKey) and other.tool is self.tool


@cache
def _validator(key: ToolKey, takes_pipeline: bool) -> Any:
    tool = key.tool
    schema = schema_with_pipeline(tool, is_required=False) if takes_pipeline else tool.input_schema
    return Draft202012Validator(schema)


def _describe(fault: ValidationError) -> str:
    pointer = "".join(f"/{_escape(str(part))}" for part in fault.absolute_path)
    rule = fault.message
    if len(rule) > MAX_RULE_CHARACTERS:
        rule = f"the value breaks the rule {fault.validator}: {fault.validator_value!r}"
    return f"{pointer or '(the arguments)'}: {rule[:MAX_RULE_CHARACTERS]}"


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")

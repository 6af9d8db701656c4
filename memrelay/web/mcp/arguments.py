"""Reads the arguments of a tool call as clients send them, and checks them against its schema.

Clients add metadata, send null for an absent argument, and write numbers and lists as texts. A
value is converted only if it has one possible meaning. All other values are refused.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, cast

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from memrelay.memory.errors import Refused
from memrelay.memory.records.data import check_integers, parse
from memrelay.memory.validation import find_closest, pointer
from memrelay.pipelines.json_text import too_many_keys
from memrelay.web.mcp.tool import MAX_FAULTS, JsonObject, Tool, refuse

PIPELINE = "pipeline"
# Fields that clients add to the arguments of a call: n8n, Cursor and others.
CLIENT_METADATA = frozenset(
    ("toolCallId", "sessionId", "action", "chatInput", "tool", "id", "random_string", "dummy")
)
# The tags of a note or a fact, which may also be a list with commas.
TAGS = "tags"
WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")
# All whole numbers up to here are exact as floating-point numbers.
LARGEST_EXACT = 2**53
BOOLEANS = {"true": True, "false": False}
# Of one JSON text in an argument, as in a request.
MAX_JSON_KEYS = 10_000
# Characters of a fault that repeats a value.
MAX_RULE_CHARACTERS = 300
SHOWN = 60
NOUNS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "string": "a text",
}
EXAMPLES: dict[str, Any] = {"integer": 10, "number": 0.5, "boolean": True, "string": "text"}


def schema_with_pipeline(tool: Tool, *, is_required: bool, pipeline: JsonObject) -> JsonObject:
    """Return the input schema with the argument `pipeline`. `pipeline` is its schema."""
    schema = tool.input_schema
    required = [PIPELINE] * is_required + list(schema.get("required", ()))
    return {
        **schema,
        "properties": {PIPELINE: pipeline, **schema["properties"]},
        **({"required": required} if required else {}),
    }


def read_arguments(tool: Tool, sent: JsonObject, *, takes_pipeline: bool) -> JsonObject:
    """Return the arguments of a call in the types of the tool's schema.

    An argument that is null or its default is absent, and metadata of the client is ignored.
    Raises ToolError with every fault, the rule and the form that is accepted.
    """
    schema, validator = _validator(tool, takes_pipeline)
    properties = schema["properties"]
    given = {
        name: _read_argument(name, properties[name], value)
        for name, value in sent.items()
        if name in properties and not _is_absent(name, value)
    }
    unknown: list[str] = []
    if not schema.get("additionalProperties", True):
        unknown = [
            name
            for name, value in sent.items()
            if name not in properties and name not in CLIENT_METADATA and value is not None
        ]
    if not unknown and validator.is_valid(given):
        # Some clients send all defaults, also of arguments that exclude each other.
        return {
            name: value
            for name, value in given.items()
            if "default" not in properties[name] or value != properties[name]["default"]
        }
    faults = [_describe_unknown(name, tool, properties) for name in unknown[: MAX_FAULTS + 1]]
    broken = islice(validator.iter_errors(given), MAX_FAULTS + 1)
    faults += [_describe_fault(fault) for fault in broken]
    raise refuse(f"the arguments of {tool.name} break its schema:", faults)


@cache
def _validator(tool: Tool, takes_pipeline: bool) -> tuple[JsonObject, Any]:
    schema = tool.input_schema
    if takes_pipeline:
        schema = schema_with_pipeline(tool, is_required=False, pipeline={"type": "string"})
    return schema, Draft202012Validator(schema)


def _is_absent(name: str, value: Any) -> bool:
    """Return whether a client left an argument out. An empty text names no tags."""
    return value is None or (name == TAGS and value == "")


def _read_argument(name: str, schema: JsonObject, value: Any) -> Any:
    if name != TAGS or not isinstance(value, str):
        return _read(schema, value)
    try:
        return list(parse(value))
    except Refused:
        return value


def _read(schema: JsonObject, value: Any) -> Any:
    """Return a value in the type of its schema; as it is if it can mean several things."""
    read = READERS.get(schema.get("type", ""))
    return value if read is None else read(schema, value)


def _read_integer(_: JsonObject, value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST_EXACT:
        return int(value)
    return _read_number(_, value)


def _read_number(_: JsonObject, value: Any) -> Any:
    is_number = isinstance(value, str) and WHOLE_NUMBER.fullmatch(value)
    return int(value) if is_number else value


def _read_boolean(_: JsonObject, value: Any) -> Any:
    return BOOLEANS.get(value, value) if isinstance(value, str) else value


def _read_list(schema: JsonObject, value: Any) -> Any:
    items = _decode(value, list)
    if not isinstance(items, list) or schema["items"].get("type") == "string":
        return items
    return [_read(schema["items"], item) for item in items]


def _read_object(schema: JsonObject, value: Any) -> Any:
    fields, properties = _decode(value, dict), schema.get("properties")
    if not isinstance(fields, dict) or not properties:
        return fields
    return {
        name: _read(properties[name], field) if name in properties else field
        for name, field in fields.items()
    }


READERS: dict[str, Callable[[JsonObject, Any], Any]] = {
    "integer": _read_integer,
    "number": _read_number,
    "boolean": _read_boolean,
    "array": _read_list,
    "object": _read_object,
}


def _decode(value: Any, kind: type) -> Any:
    """Return the list or object in a JSON text; any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        text = value.encode()
        if too_many_keys(text, MAX_JSON_KEYS):
            return value
        decoded = orjson.loads(text)
        check_integers(text)
    except (UnicodeEncodeError, orjson.JSONDecodeError, Refused):
        return value
    return decoded if isinstance(decoded, kind) else value


def _describe_unknown(name: str, tool: Tool, properties: Mapping[str, Any]) -> str:
    closest = find_closest(name, properties)
    fix = f"did you mean `{closest}`?" if closest else "remove it"
    if name == PIPELINE:
        fix = "the URL names the pipeline: remove it"
    return f"{pointer((name[:SHOWN],))}: is no argument of {tool.name}; {fix}"


def _describe_fault(fault: ValidationError) -> str:
    rule = fault.message
    if fault.validator == "type":
        rule = _describe_type(fault)
    elif len(rule) > MAX_RULE_CHARACTERS:
        rule = f"the value breaks the rule {fault.validator}: {fault.validator_value!r}"
    return f"{pointer(tuple(fault.absolute_path)) or '(the arguments)'}: {rule}"


def _describe_type(fault: ValidationError) -> str:
    """Return the type that a value must have, and an example of it."""
    schema = cast(JsonObject, fault.schema)
    example = _to_json(_make_example(schema))
    name = fault.absolute_path[-1] if fault.absolute_path else 0
    if isinstance(name, str):
        example = f"{_to_json(name)}: {example}"
    shown = _to_json(fault.instance)
    if len(shown) > SHOWN:
        shown = f"{shown[:SHOWN]}..."
    return f"must be {NOUNS[schema['type']]}, and {shown} is not; send it like {example}"


def _make_example(schema: JsonObject) -> Any:
    kind = schema["type"]
    if kind == "array":
        return [_make_example(schema["items"])] * schema.get("minItems", 1)
    if kind == "object":
        fields: Iterator[tuple[str, JsonObject]] = iter(schema.get("properties", {}).items())
        return {name: _make_example(field) for name, field in fields} or {"name": "value"}
    return schema.get("default", next(iter(schema.get("enum", ())), EXAMPLES[kind]))


def _to_json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        return repr(value)

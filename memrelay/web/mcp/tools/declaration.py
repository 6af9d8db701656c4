"""Declare tools. Their schemas and descriptions come from the fields and texts of operations."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from memrelay.memory.operations import input_schema, known_operation
from memrelay.web.mcp.tool import Hints, JsonObject, Target, Tool, ToolError

MAX_DESCRIPTION = 300  # characters
# Keywords that a schema keeps. The operation checks the others.
KEPT_KEYWORDS = ("type", "enum")
# Further ones of an argument whose name differs from that of the field: an error of the operation
# would name the field.
KEPT_IF_RENAMED = ("minLength", "maxLength")
# Arguments whose names say enough: every description costs tokens in each conversation.
UNEXPLAINED = (
    "content",
    "cursor",
    "explain",
    "guid",
    "if_version",
    "kind",
    "limit",
    "metadata",
    "order",
    "owner",
    "query",
    "reason",
    "scope",
    "text",
    "thread",
    "timezone",
    "token_budget",
)
# A client of a tool has no documentation files.
DOCUMENT = re.compile(r" \(docs/[a-z-]+\.md\)")
# A note is a record, and a fact is an entry of a named memory.
TOOL_WORDS = tuple(
    (re.compile(rf"\b{word}\b"), tool_word)
    for word, tool_word in (
        ("an entry", "a fact"),
        ("entry", "fact"),
        ("entries", "facts"),
        ("record", "note"),
        ("records", "notes"),
    )
)
# An object with any fields. Some clients refuse one without `properties`, and others remove all
# fields that the schema does not name or allow.
FREE_FORM: JsonObject = {"type": "object", "properties": {}, "additionalProperties": True}
FIRST_SENTENCE = re.compile(r".*?[.](?=\s|$)", re.DOTALL)
# The other hints mean nothing for a tool that only reads, and each costs tokens.
READS = Hints(read_only=True, destructive=None, idempotent=None)
Run = Callable[[Target, JsonObject], Awaitable[JsonObject]]


@dataclass(frozen=True, slots=True)
class Field:
    """An argument of a tool that is a field of an operation."""

    operation: str
    name: str
    # The default of the tool, if it is not that of the operation.
    default: Any = None


def tool(
    *,
    title: str,
    operations: tuple[str, ...],
    required: tuple[str, ...],
    arguments: Mapping[str, Field | JsonObject],
    output: JsonObject,
    hints: Hints,
    to_text: Callable[[JsonObject], str] | None = None,
) -> Callable[[Run], Tool]:
    """Return the decorator that makes a tool of the function which runs it.

    The name is that of the function. The description is the docstring, and what its operations do.
    `arguments` are fields of operations, or schemas of their own. `output` is the schema of the
    result. Raises ValueError: the description is too long.
    """

    def declare(run: Run) -> Tool:
        return Tool(
            run.__name__,
            in_tool_words(title),
            _describe(run, operations),
            {
                "type": "object",
                "properties": {
                    name: _in_tool_words(
                        _field_schema(name, one) if isinstance(one, Field) else one
                    )
                    for name, one in arguments.items()
                },
                **({"required": list(required)} if required else {}),
                "additionalProperties": False,
            },
            output,
            operations,
            hints,
            run,
            to_text,
        )

    return declare


def _describe(run: Run, operations: tuple[str, ...]) -> str:
    """Return the docstring and the first sentence of each operation's summary."""
    advice = " ".join((run.__doc__ or "").split())
    does = [first_sentence(known_operation(name).summary) for name in operations]
    description = in_tool_words(" ".join([*does, advice]))
    if len(description) > MAX_DESCRIPTION:
        raise ValueError(
            f"the description of {run.__name__} has {len(description)} characters, "
            f"and at most {MAX_DESCRIPTION} are allowed"
        )
    return description


def in_tool_words(text: str) -> str:
    """Return a text about operations in the words of the tools: notes and facts."""
    for word, tool_word in TOOL_WORDS:
        text = word.sub(tool_word, text)
    return text


def _in_tool_words(schema: JsonObject) -> JsonObject:
    if "description" not in schema:
        return schema
    return schema | {"description": in_tool_words(schema["description"])}


def _field_schema(argument: str, field: Field) -> JsonObject:
    """Return the schema of an argument: short, because clients give all of it to a model."""
    full = input_schema(known_operation(field.operation))["properties"][field.name]
    one = next((each for each in full.get("anyOf", ()) if each.get("type") != "null"), full)
    kept = KEPT_KEYWORDS if argument == field.name else KEPT_KEYWORDS + KEPT_IF_RENAMED
    schema = {name: one[name] for name in kept if name in one}
    if "items" in one:
        schema["items"] = {"type": one["items"]["type"]}
    if one.get("type") == "object":
        schema |= FREE_FORM
    default = full.get("default") if field.default is None else field.default
    if default:
        schema["default"] = default
    if argument in UNEXPLAINED:
        return schema
    paragraph = " ".join(full["description"].partition("\n\n")[0].split())
    text = DOCUMENT.sub("", paragraph if "enum" in one else first_sentence(paragraph))
    if "examples" in one:
        text += f" Example: {orjson.dumps(one['examples'][0]).decode()}"
    return schema | {"description": text}


def first_sentence(text: str) -> str:
    """Return the first sentence, or the whole text if it has none."""
    found = FIRST_SENTENCE.match(text)
    return found[0] if found else text


def object_of(types: Mapping[str, str], *required: str) -> JsonObject:
    """Return the schema of an object with properties of these types, and maybe others."""
    properties = {name: {"type": type_} for name, type_ in types.items()}
    return {"type": "object", "properties": properties, "required": list(required)}


def pick(given: JsonObject, *names: str) -> JsonObject:
    """Return the arguments with these names that are given."""
    return {name: given[name] for name in names if name in given}


def refuse_extra(given: JsonObject, allowed: tuple[str, ...], rule: str) -> None:
    """Raise ToolError if other arguments are given. `rule` says why they are not allowed.

    Some clients send empty texts for what they leave out.
    """
    extra = [name for name, value in given.items() if name not in allowed and value != ""]
    if extra:
        raise ToolError(f"{rule}: omit {', '.join(f'`{name}`' for name in extra)}")

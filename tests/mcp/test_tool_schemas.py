"""The declarations of the tools: equal to the operations, and small."""

import pytest
from jsonschema import Draft202012Validator

from memrelay.memory.operations import all_operations, input_schema
from memrelay.web.mcp.tool import Hints, Tool
from memrelay.web.mcp.tools.declaration import UNEXPLAINED, Field, in_tool_words, object_of, tool
from tests.support.mcp_tools import TOOLS

# Arguments of tools by operation: the name of the argument, and of the field if it differs.
FIELDS = {
    ("memory_remember", "entries.create"): "text=content memory tags metadata mode",
    ("memory_recall", "knowledge.context"): (
        "query memory tags=entry_tags limit token_budget min_score timezone"
    ),
    ("memory_search", "records.search"): "query mode kind scope tags filter limit explain timezone",
    ("memory_read", "records.list"): "kind scope tags filter order limit cursor deleted",
    ("memory_read", "records.get"): "guid",
    ("memory_write", "records.create"): "content kind tags key owner thread data expires_at",
    ("memory_change", "records.update"): (
        "guid content kind tags data expires_at if_version reason"
    ),
    ("memory_change", "records.restore"): "",
    ("memory_write", "records.append"): "",
    ("memory_forget", "records.delete"): "if_version reason",
    ("memory_forget", "entries.delete"): "if_version reason",
    ("memory_history", "records.history"): "guid limit cursor",
}
# Arguments that are no fields of an operation, or have texts of their own.
OWN = {
    "memory_recall": {"as_of"},
    "memory_search": {"store", "as_of"},
    "memory_read": {"offset", "store", "memory", "as_of"},
    "memory_write": {"append_to", "idempotency_key"},
    "memory_change": {"restore"},
    "memory_forget": {"guid"},
}
REQUIRED = {
    "memory_remember": ["text"],
    "memory_recall": ["query"],
    "memory_search": ["query"],
    "memory_read": [],
    "memory_write": ["content"],
    "memory_change": ["guid"],
    "memory_forget": ["guid"],
    "memory_history": ["guid"],
}
# Defaults that differ from those of the operations.
DEFAULTS = {
    ("memory_remember", "memory"): "notes",
    ("memory_search", "mode"): "hybrid",
    ("memory_search", "limit"): 10,
    ("memory_read", "limit"): 20,
}
# Arguments whose text would cost more tokens than it is worth.
BRIEF = {
    ("memory_read", "filter"),
    ("memory_remember", "tags"),
    ("memory_write", "tags"),
    ("memory_write", "data"),
}
CASES = [
    (name, operation, *pair.partition("=")[::2])
    for (name, operation), listed in FIELDS.items()
    for pair in listed.split()
]
each_tool = pytest.mark.parametrize("one", TOOLS.values(), ids=list(TOOLS))


@pytest.mark.parametrize(("name", "operation", "argument", "field"), CASES)
def test_an_argument_has_the_type_and_text_of_its_field(
    name: str, operation: str, argument: str, field: str
) -> None:
    properties = input_schema(all_operations()[operation])["properties"]
    declared = properties[field or argument]
    schema = TOOLS[name].input_schema["properties"][argument]
    variants = [declared, *declared.get("anyOf", [])]

    assert schema["type"] in {one.get("type") for one in variants}
    assert schema.get("enum") in [one.get("enum") for one in variants]
    if argument not in UNEXPLAINED and (name, argument) not in BRIEF:
        told = schema["description"].partition(" Example:")[0].removesuffix(".")
        text = " ".join(declared["description"].split()).replace(" (docs/filters.md)", "")
        text = in_tool_words(text)
        assert told and text.startswith(told)
    default = DEFAULTS.get((name, argument), declared.get("default") or None)
    assert schema.get("default") == default


@each_tool
def test_a_tool_has_exactly_the_known_arguments(one: Tool) -> None:
    known = {argument for name, _, argument, _ in CASES if name == one.name}
    schema = one.input_schema

    assert set(schema["properties"]) == known | OWN.get(one.name, set())
    assert schema.get("required", []) == REQUIRED[one.name]
    assert {operation for name, operation in FIELDS if name == one.name} == set(one.operations)


@each_tool
def test_schemas_are_closed_and_valid(one: Tool) -> None:
    Draft202012Validator.check_schema(one.input_schema)
    Draft202012Validator.check_schema(one.output_schema)

    assert one.input_schema["additionalProperties"] is False
    assert one.output_schema["type"] == "object"


def test_free_form_objects_declare_that_they_take_any_fields() -> None:
    found = [
        schema
        for one in TOOLS.values()
        for schema in one.input_schema["properties"].values()
        if schema["type"] == "object"
    ]

    assert len(found) == 5
    for schema in found:
        assert schema["properties"] == {} and schema["additionalProperties"] is True


@each_tool
def test_a_description_says_what_the_operations_do(one: Tool) -> None:
    assert 0 < len(one.description) <= 300
    for name in one.operations:
        summary = in_tool_words(all_operations()[name].summary)
        assert summary.partition(". ")[0].removesuffix(".") in one.description


def test_hints_agree_with_the_access_of_the_operations() -> None:
    for one in TOOLS.values():
        operations = [all_operations()[name] for name in one.operations]
        assert one.hints.read_only is not any(each.mutates for each in operations), one.name
    destructive = {one.name for one in TOOLS.values() if one.hints.destructive}
    idempotent = {one.name for one in TOOLS.values() if one.hints.idempotent}
    assert destructive == {"memory_change", "memory_forget"}
    assert idempotent == {"memory_remember", "memory_forget"}


def test_a_long_description_is_refused() -> None:
    async def wordy(target: object, given: object) -> dict[str, object]:
        return {}

    wordy.__doc__ = "word " * 60
    declare = tool(
        title="Wordy",
        operations=("records.get",),
        required=(),
        arguments={"guid": Field("records.get", "guid")},
        output=object_of({}),
        hints=Hints(),
    )

    with pytest.raises(ValueError, match="has 316 characters, and at most 300 are allowed"):
        declare(wordy)

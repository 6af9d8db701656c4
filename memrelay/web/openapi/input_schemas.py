"""Input schemas of operations, with references into the components of the OpenAPI document."""

from collections.abc import Iterable
from typing import Any

from memrelay.memory.operations import Operation, input_schema

Json = dict[str, Any]
LOCAL_REF = "#/$defs/"
# Inputs and outputs may have types with one name.
SHARED_REF = "#/components/schemas/{}Input"


def make_input_schema(operation: Operation) -> Json:
    """Return the schema of the fields that a caller may send."""
    schema = input_schema(operation)
    return {
        "properties": _share_references(schema["properties"]),
        "required": schema["required"],
    }


def list_definitions(operations: Iterable[Operation]) -> dict[str, Json]:
    """Return the schemas that the input schemas name, by their names in the components.

    They have no titles, which client generators would take as names.
    """
    return {
        f"{name}Input": _share_references(
            {key: value for key, value in schema.items() if key != "title"}
        )
        for operation in operations
        for name, schema in input_schema(operation).get("$defs", {}).items()
    }


def _share_references(value: Any) -> Any:
    """Return a schema, or a part of it, with references into the components."""
    if isinstance(value, list):
        return [_share_references(one) for one in value]
    if not isinstance(value, dict):
        return value
    shared = {name: _share_references(one) for name, one in value.items()}
    ref = shared.get("$ref")
    if isinstance(ref, str) and ref.startswith(LOCAL_REF):
        shared["$ref"] = SHARED_REF.format(ref.removeprefix(LOCAL_REF))
    return shared

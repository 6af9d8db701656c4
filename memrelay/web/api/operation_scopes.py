"""The scopes that a call of an operation needs, and the output that its caller may see."""

from collections.abc import Collection, Mapping
from typing import Any

from memrelay.memory.models.shared_stores.tool.file_texts import EDITED
from memrelay.memory.models.shared_stores.tool.scopes import scope_of
from memrelay.memory.operations import Operation
from memrelay.web.api.operation_routes import (
    REFERENCE_FIELDS,
    STORED_FIELDS,
    returns_stored_text,
)

READ, WRITE = "memory_tool.read", "memory_tool.write"
# A key needs one of these for the operation, and that of its command for the call.
SCOPES = {READ: ("search", "read"), WRITE: ("write", "delete")}


def scopes_of(operation: Operation) -> tuple[str, ...]:
    """Return the scopes of which a caller of an operation needs one."""
    return SCOPES.get(operation.name, (operation.access,))


def scope_of_command(name: str, given: Mapping[str, Any]) -> str:
    """Return the scope that the command of a memory tool needs, "" for other operations."""
    arguments = given.get("arguments")
    return scope_of(arguments) if name in SCOPES and isinstance(arguments, dict) else ""


def hide_output(scopes: Collection[str], operation: Operation, output: Any) -> Any:
    """Return only ids and the version if the caller may not read the stored text in the output."""
    if "read" in scopes:
        return output
    if operation.name == WRITE:
        return _hide_context(output)
    if not returns_stored_text(operation):
        return output
    stored = dict(output)
    for name in STORED_FIELDS:
        stored |= output.get(name, {})
    return {name: stored[name] for name in REFERENCE_FIELDS if name in stored}


def _hide_context(output: Mapping[str, Any]) -> dict[str, Any]:
    """Return the output of a change by the memory tool without the stored text around it."""
    value = output["value"]
    if not output["is_error"] and isinstance(value, str):
        first = value.partition("\n")[0]
        value = EDITED.partition(" Here is")[0] if value.startswith(EDITED) else first
    return {**output, "value": value}

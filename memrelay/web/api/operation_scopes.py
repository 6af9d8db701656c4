"""The scopes that a call of an operation needs, and the output that its caller may see."""

from collections.abc import Collection, Mapping
from typing import Any

from memrelay.memory.operations import Operation
from memrelay.web.api.operation_routes import (
    REFERENCE_FIELDS,
    STORED_FIELDS,
    returns_stored_text,
)


def scopes_of(operation: Operation) -> tuple[str, ...]:
    """Return the scopes of which a caller of an operation needs one."""
    commands = operation.commands
    return (operation.access,) if commands is None else commands.scopes


def scope_of_command(operation: Operation, input: Mapping[str, Any]) -> str:
    """Return the scope that the command in an input needs, "" for operations without commands."""
    return "" if operation.commands is None else operation.commands.find_scope(input)


def hide_output(scopes: Collection[str], operation: Operation, output: Any) -> Any:
    """Return only ids and the version if the caller may not read the stored text in the output."""
    if "read" in scopes:
        return output
    if operation.commands is not None and operation.commands.hide_text is not None:
        return operation.commands.hide_text(output)
    if not returns_stored_text(operation):
        return output
    stored = dict(output)
    for name in STORED_FIELDS:
        stored |= output.get(name, {})
    return {name: stored[name] for name in REFERENCE_FIELDS if name in stored}

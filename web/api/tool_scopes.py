"""The memory tool behind keys with few scopes: what they may call, and what they may see."""

from collections.abc import Mapping
from typing import Any

from memrelay.memory.operation import Operation
from memrelay.memory.tool.file_texts import EDITED
from memrelay.memory.tool.scopes import scope_of
from memrelay.web.auth.authorizer import Caller

READ, WRITE = "memory_tool.read", "memory_tool.write"
# A key needs one of these for the operation, and that of its command for the call.
SCOPES = {READ: ("search", "read"), WRITE: ("write", "delete")}


def scopes_of(operation: Operation) -> tuple[str, ...]:
    """Return the scopes of which a caller of an operation needs one."""
    return SCOPES.get(operation.name, (operation.access,))


def check_command(caller: Caller, name: str, given: Mapping[str, Any]) -> None:
    """Check the scope of a tool call's command. Raises NotAllowed: the scope is missing."""
    arguments = given.get("arguments")
    needed = scope_of(arguments) if name in SCOPES and isinstance(arguments, dict) else ""
    if needed:
        caller.check(needed)


def hide_context(output: Mapping[str, Any]) -> dict[str, Any]:
    """Return the output of a change without the stored text around it."""
    value = output["value"]
    if not output["is_error"] and isinstance(value, str):
        first = value.partition("\n")[0]
        value = EDITED.partition(" Here is")[0] if value.startswith(EDITED) else first
    return {**output, "value": value}

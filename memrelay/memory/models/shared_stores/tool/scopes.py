"""The scope of a key that each command of the memory tool needs: that of its operation."""

from collections.abc import Mapping
from typing import Any

# The commands and actions of both dialects. An unknown command is only answered.
SCOPES = {
    "view": "read",
    "get": "read",
    "list": "read",
    "stores": "read",
    "search": "search",
    "create": "write",
    "set": "write",
    "edit": "write",
    "str_replace": "write",
    "insert": "write",
    "rename": "write",
    "share": "write",
    "unshare": "write",
    "delete": "delete",
}


def scope_of(arguments: Mapping[str, Any]) -> str:
    """Return the scope that a call of the tool needs, "" for an unknown command."""
    command = arguments.get("command")
    if command is None:
        command = arguments.get("action")
    return SCOPES.get(str(command), "")

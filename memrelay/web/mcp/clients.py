"""The configurations with which MCP clients start `memrelay mcp`."""

from collections.abc import Mapping, Sequence
from typing import Any

NAME = "memrelay"
CLAUDE_DESKTOP, CLAUDE_CODE, CURSOR, VS_CODE = "claude-desktop", "claude-code", "cursor", "vscode"
CLIENTS = (CLAUDE_DESKTOP, CLAUDE_CODE, CURSOR, VS_CODE)


def make_configuration(
    client: str, command: str, arguments: Sequence[str], environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return the JSON of a client's configuration.

    That of Claude Code is the argument of `claude mcp add-json memrelay`. The others are whole
    files.
    """
    start = {"command": command, "args": list(arguments), "env": dict(environment)}
    if client == CLAUDE_CODE:
        return {"type": "stdio", **start}
    if client == VS_CODE:
        return {"servers": {NAME: {"type": "stdio", **start}}}
    return {"mcpServers": {NAME: start}}

"""The toolset `files`: Anthropic's memory tool (memory_20250818), for clients of MCP.

The files are the items of the agent `mcp` in its own store, as the operation `memory_tool` with the
dialect `anthropic` keeps them.
"""

from memrelay.memory.models.shared_stores.tool.arguments import is_read
from memrelay.web.mcp.tool import Hints, JsonObject, Target, Tool, ToolError

# The agent, whose id is also the id of its store.
AGENT = "mcp"
DIALECT = "anthropic"
READ, WRITE = "memory_tool.read", "memory_tool.write"


async def run_command(target: Target, given: JsonObject) -> JsonObject:
    """Run a command. Raises ToolError with the text of the memory tool."""
    operation = READ if is_read(given, DIALECT) else WRITE
    call = {"agent": AGENT, "dialect": DIALECT, "arguments": given}
    answer = await target.call(operation, call)
    if answer["is_error"]:
        raise ToolError(answer["value"])
    return {"text": answer["value"]}


def _text(description: str) -> JsonObject:
    return {"type": "string", "description": description}


INPUT: JsonObject = {
    "type": "object",
    "properties": {
        "command": {
            "type": "string",
            "enum": ["view", "create", "str_replace", "insert", "delete", "rename"],
            "description": "view shows a file or lists a folder. create writes a new file. "
            "str_replace and insert edit a file. delete and rename take a file or a folder.",
        },
        "path": _text("A path below /memories; for every command except rename."),
        "view_range": {
            "type": "array",
            "items": {"type": "integer"},
            "minItems": 2,
            "maxItems": 2,
            "description": "For view: the first and the last line; -1 is the last line of a file.",
        },
        "file_text": _text("For create: the text of the file."),
        "old_str": _text("For str_replace: the text to replace, which occurs exactly once."),
        "new_str": _text("For str_replace: the new text."),
        "insert_line": {
            "type": "integer",
            "description": "For insert: the line after which the text goes; 0 is the beginning.",
        },
        "insert_text": _text("For insert: the text."),
        "old_path": _text("For rename: the present path."),
        "new_path": _text("For rename: the new path."),
    },
    "required": ["command"],
    "additionalProperties": False,
}
OUTPUT: JsonObject = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
FILE_TOOLS: tuple[Tool, ...] = (
    Tool(
        "memory",
        "Memory files",
        "Read and write text files below /memories, which stay between conversations. View "
        "/memories before a task; write down what later conversations need.",
        INPUT,
        OUTPUT,
        (READ, WRITE),
        Hints(destructive=True),
        run_command,
        lambda value: str(value["text"]),
    ),
)

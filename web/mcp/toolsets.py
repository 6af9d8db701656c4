"""The toolsets by name, each with its tools in the order of the list."""

from memrelay.web.mcp.tool import Tool
from memrelay.web.mcp.tools.memory_toolset import MEMORY_TOOLS

MEMORY, GRAPH, FILES = "memory", "graph", "files"
TOOLSETS: dict[str, tuple[Tool, ...]] = {
    MEMORY: MEMORY_TOOLS,
    GRAPH: (),
    FILES: (),
}

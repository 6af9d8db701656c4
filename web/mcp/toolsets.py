"""The toolsets by name, each with its tools in the order of the list."""

from memrelay.web.mcp.tool import Tool
from memrelay.web.mcp.tools import memory_history

MEMORY, GRAPH, FILES = "memory", "graph", "files"
TOOLSETS: dict[str, tuple[Tool, ...]] = {
    MEMORY: (memory_history.TOOL,),
    GRAPH: (),
    FILES: (),
}

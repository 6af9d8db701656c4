"""The toolsets by name, each with its tools in the order of the list."""

from memrelay.web.mcp.tool import Tool
from memrelay.web.mcp.tools import memory_history
from memrelay.web.mcp.tools.files import FILE_TOOLS
from memrelay.web.mcp.tools.graph import GRAPH_TOOLS

MEMORY, GRAPH, FILES = "memory", "graph", "files"
TOOLSETS: dict[str, tuple[Tool, ...]] = {
    MEMORY: (memory_history.TOOL,),
    GRAPH: GRAPH_TOOLS,
    FILES: FILE_TOOLS,
}

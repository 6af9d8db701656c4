"""The toolsets by name, each with its tools in the order of the list."""

from memrelay.web.mcp.tool import Tool
from memrelay.web.mcp.tools.files import FILE_TOOLS
from memrelay.web.mcp.tools.graph import GRAPH_TOOLS
from memrelay.web.mcp.tools.memory_toolset import MEMORY_TOOLS
from memrelay.web.mcp.toolsets import FILES, GRAPH, MEMORY

TOOLSETS: dict[str, tuple[Tool, ...]] = {
    MEMORY: MEMORY_TOOLS,
    GRAPH: GRAPH_TOOLS,
    FILES: FILE_TOOLS,
}

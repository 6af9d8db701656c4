"""The toolset `memory`: the tools in the order of the list."""

from memrelay.web.mcp.tool import Tool
from memrelay.web.mcp.tools.memory_change import memory_change
from memrelay.web.mcp.tools.memory_forget import memory_forget
from memrelay.web.mcp.tools.memory_history import memory_history
from memrelay.web.mcp.tools.memory_read import memory_read
from memrelay.web.mcp.tools.memory_recall import memory_recall
from memrelay.web.mcp.tools.memory_remember import memory_remember
from memrelay.web.mcp.tools.memory_search import memory_search
from memrelay.web.mcp.tools.memory_write import memory_write

MEMORY_TOOLS: tuple[Tool, ...] = (
    memory_remember,
    memory_recall,
    memory_search,
    memory_read,
    memory_write,
    memory_change,
    memory_forget,
    memory_history,
)

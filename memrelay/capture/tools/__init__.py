"""The coding tools whose sessions can be captured: where their settings are, and how they change.

Each module describes one tool. `TOOLS` has them by the name on the command line.
"""

from memrelay.capture.tools.claude_code import CLAUDE_CODE
from memrelay.capture.tools.codex import CODEX
from memrelay.capture.tools.cursor import CURSOR
from memrelay.capture.tools.gemini_cli import GEMINI_CLI
from memrelay.capture.tools.opencode import OPENCODE
from memrelay.capture.tools.tool import Tool

__all__ = ["TOOLS", "Tool"]

TOOLS: dict[str, Tool] = {
    tool.name: tool for tool in (CLAUDE_CODE, CODEX, GEMINI_CLI, CURSOR, OPENCODE)
}

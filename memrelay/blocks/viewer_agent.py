"""viewer_agent: show the messages that pass its `agent_from`. It never publishes."""

from memrelay.blocks.contract import Block, BlockArgs
from memrelay.blocks.registry import register


class ViewerArgs(BlockArgs):
    """Display options of a view."""

    markdown: bool = True
    """Stored for clients that render Markdown."""
    darkmode: bool = False
    """Stored for clients."""


register(Block("viewer_agent", ViewerArgs, None))

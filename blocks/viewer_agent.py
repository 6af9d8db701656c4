"""viewer_agent: shows what passes its `agent_from`, and never says anything."""

from memrelay.blocks.contract import Block, BlockArgs
from memrelay.blocks.registry import register


class ViewerArgs(BlockArgs):
    """How the view is shown."""

    markdown: bool = True
    """Kept for clients that show Markdown."""
    darkmode: bool = False
    """Kept for clients."""


register(Block("viewer_agent", ViewerArgs, None))

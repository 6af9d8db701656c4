"""chat_agent: where a person (or a program for one) talks to a pipeline. It shows and says; it has
nothing to compute."""

from typing import Literal

from memrelay.blocks.contract import Block, BlockArgs
from memrelay.blocks.registry import register


class ChatArgs(BlockArgs):
    """How a chat is shown (contracts/kilroy.md A4)."""

    markdown: bool = True
    """Kept for chat clients that show Markdown."""
    darkmode: bool = False
    """Kept for chat clients."""
    page_mode: Literal["chat", "page"] = "chat"
    """Kept for chat clients."""


register(Block("chat_agent", ChatArgs, None))

"""chat_agent: let a person, or a program for a person, chat with the pipeline."""

from typing import Literal

from memrelay.blocks.contract import Block, BlockArgs
from memrelay.blocks.registry import register


class ChatArgs(BlockArgs):
    """Display options of a chat (contracts/kilroy.md A4)."""

    markdown: bool = True
    """Stored for chat clients that render Markdown."""
    darkmode: bool = False
    """Stored for chat clients."""
    page_mode: Literal["chat", "page"] = "chat"
    """Stored for chat clients."""


register(Block("chat_agent", ChatArgs, None))

"""chat_agent: where a person (or a program for one) talks to a pipeline. It shows and says; it has nothing to compute."""
from typing import Literal

from blocks.contract import Block, BlockArgs
from blocks.registry import register


class ChatArgs(BlockArgs):
    """How a chat is shown (contracts/kilroy.md A4)."""

    markdown: bool = True
    darkmode: bool = False
    page_mode: Literal["chat", "page"] = "chat"


register(Block("chat_agent", ChatArgs, None))

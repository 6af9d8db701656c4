"""add_1: add 1 to the number in the text. It is the example to copy for a new block."""

from memrelay.blocks.contract import BlockArgs, Call
from memrelay.blocks.registry import block
from memrelay.bus.message import Message


class AddArgs(BlockArgs):
    """The number to add."""

    amount: int = 1
    """An integer."""


@block("add_1", AddArgs)
def add_1(call: Call, args: AddArgs) -> Message:
    """Return the sum, or "ERR" if the text is not an integer."""
    try:
        return call.reply(str(int(call.text) + args.amount))
    except ValueError:
        return call.reply("ERR")

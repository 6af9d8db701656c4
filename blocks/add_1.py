"""add_1: adds 1 to the number in the text. The tutorial's example, to copy for a block of your
own."""

from memrelay.blocks.contract import BlockArgs, Call
from memrelay.blocks.registry import block
from memrelay.bus.message import Message


class AddArgs(BlockArgs):
    """What is added to the number."""

    amount: int = 1
    """A whole number."""


@block("add_1", AddArgs)
def add_1(call: Call, args: AddArgs) -> Message:
    """Answers with the sum, or "ERR" where the text is no whole number."""
    try:
        return call.reply(str(int(call.text) + args.amount))
    except ValueError:
        return call.reply("ERR")

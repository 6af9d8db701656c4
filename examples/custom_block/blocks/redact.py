"""redact: replace e-mail addresses and long numbers, so that no later block sees them."""

import re

from memrelay import BlockArgs, Call, Message, block

PRIVATE = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+|\b\d[\d -]{6,}\d\b")


class RedactArgs(BlockArgs):
    """The replacement of private data."""

    mask: str = "[removed]"
    """Text in place of an address or a number."""


@block("redact", RedactArgs)
def redact(call: Call, args: RedactArgs) -> Message:
    """Return the text without e-mail addresses, telephone and card numbers."""
    return call.reply(PRIVATE.sub(args.mask, call.text))

"""The exceptions of blocks.

ValueError
└── BadArgument   an argument of a block does not fit the other arguments
Exception
├── BrokenBlock      a block cannot be loaded
└── MessageRefused   a message breaks a rule of its bundle
"""


class BadArgument(ValueError):
    """One argument of a block does not fit the others.

    A validator of the whole model raises it. The fault is reported at `argument`.
    """

    def __init__(self, rule: str, argument: str) -> None:
        super().__init__(rule)
        self.argument = argument


class BrokenBlock(Exception):
    """A block cannot be loaded. The text names the place and the reason; `remedy` is the fix."""

    def __init__(self, text: str, remedy: str) -> None:
        super().__init__(text)
        self.remedy = remedy


class MessageRefused(Exception):
    """A message breaks a rule of its bundle, and becomes a dead letter. It is no defect."""

"""What is wrong with the arguments of a block."""


class BadArgument(ValueError):
    """One argument does not go with the others. A check of all of them raises it, and it is told at that argument's place."""

    def __init__(self, rule: str, argument: str) -> None:
        """`argument` is its name."""
        super().__init__(rule)
        self.argument = argument

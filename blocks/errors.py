"""What can go wrong with blocks.

ValueError
└── BadArgument   an argument of a block does not go with the others
Exception
└── BrokenBlock   the file of a block cannot be loaded
"""

import traceback


class BadArgument(ValueError):
    """One argument does not go with the others. A check of all of them raises it, and it is told at
    that argument's place."""

    def __init__(self, rule: str, argument: str) -> None:
        """`argument` is its name."""
        super().__init__(rule)
        self.argument = argument


class BrokenBlock(Exception):
    """The file of a block cannot be loaded. The text says where and why."""

    def __init__(self, name: str, fault: BaseException) -> None:
        """`fault` is what was raised while the file was run."""
        self.file = f"blocks/{name}.py"
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(fault.__traceback__)
            if frame.filename.endswith(self.file)
        ]
        line = fault.lineno if isinstance(fault, SyntaxError) else lines[-1] if lines else None
        why = fault.msg if isinstance(fault, SyntaxError) else str(fault)
        super().__init__(
            f"{self.file}{f', line {line}' if line else ''}: {type(fault).__name__}: {why}"
        )

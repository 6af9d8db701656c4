"""Names that no other test of this run has."""

from itertools import count

_numbers = count(1)


def new_name(what: str) -> str:
    return f"{what}{next(_numbers)}"

"""Did-you-mean: the known word that a misspelt one comes closest to."""

from collections.abc import Iterable
from difflib import get_close_matches

LIKELY = 0.6
LONGEST = 128  # characters; nothing longer is a name


def closest(word: str, known: Iterable[str], ratio: float = LIKELY) -> str:
    """The known word that is most like `word`, whatever its case; "" where none is as near as
    `ratio`."""
    if len(word) > LONGEST:
        return ""
    by_lower = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), by_lower, 1, ratio)
    return by_lower[found[0]] if found else ""

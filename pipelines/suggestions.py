"""Did-you-mean, as a fault tells it."""

from collections.abc import Iterable

from memory.suggestions import closest
from pipelines.faults import quoted

NEAR = 0.8  # a key as close as this to a known one is a misspelling, not a key of somebody else's


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The question as a suggestion; "" where nothing comes close."""
    found = closest(word, known)
    return f"did you mean {quoted(found)}?" if found else ""

"""Did-you-mean, as a fault tells it."""

from collections.abc import Iterable

from memory.suggestions import LIKELY, closest
from pipelines.faults import quoted


def did_you_mean(word: str, known: Iterable[str], ratio: float = LIKELY) -> str:
    """The question as a suggestion; "" where nothing comes as near as `ratio`."""
    found = closest(word, known, ratio)
    return f"did you mean {quoted(found)}?" if found else ""

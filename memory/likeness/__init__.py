"""How alike two short facts are, on the scale of SOAT's document (seed 004): 0.95 is the same, 0.75 overlaps."""
from bisect import bisect_right
from typing import NamedTuple

from memory.entry_text import normalised

COSINES, SCORES = (0.0, 0.60, 0.78, 1.0), (0.0, 0.75, 0.95, 1.0)


class Likeness(NamedTuple):
    """What a comparison gives."""

    score: float   # 0 to 1
    why: str


def alike(new: str, old: str, cosine: float | None, fingerprint: str) -> Likeness:
    """`cosine` is that of their vectors by the embedder of that fingerprint; None where it is not known."""
    if normalised(new) == normalised(old):
        return Likeness(1.0, "the same text")
    if cosine is None:
        return Likeness(0.0, "no vectors to compare")
    at = min(max(bisect_right(COSINES, cosine), 1), len(COSINES) - 1)
    low, high = COSINES[at - 1], COSINES[at]
    share = (min(max(cosine, 0.0), 1.0) - low) / (high - low)
    return Likeness(SCORES[at - 1] + share * (SCORES[at] - SCORES[at - 1]), f"cosine {cosine:.2f}")

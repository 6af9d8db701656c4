"""Why a search found nothing: the first of the reasons that is enough by itself."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from memory.explanation import Nothing, TermTold
from memory.recall.fusion import by_meaning, fused
from memory.recall.ranked import Ranked, candidates
from memory.recall.scene import Scene
from memory.recall.text_arm import TextFound
from memory.recall.vector_arm import VectorFound

NO_RECORDS = Nothing("no records", "the store has no records")
NO_LIMIT = Nothing("nothing asked", "`limit` is 0")
NO_WORDS = Nothing("nothing asked", "the query has no word to look for, and no filter")


def unfiltered(ranked: Ranked, compare: Callable[[Scene], VectorFound]) -> Ranked:
    """With what the vectors say of all records: a search compares those alone that are allowed."""
    *others, vector = ranked.arms
    if ranked.scene.allowed is None or not isinstance(vector, VectorFound):
        return ranked
    found = replace(compare(replace(ranked.scene, allowed=None)), least=vector.least)
    return replace(
        ranked,
        arms=(*others, found),
        scores=fused(others[0], found) if others else by_meaning(found),
    )


def why_nothing(
    ranked: Ranked, terms: Sequence[TermTold], text: TextFound | None, vector: VectorFound | None
) -> Nothing:
    """Of a ranked search."""
    scene = ranked.scene
    if not len(scene.layout):
        return NO_RECORDS
    if scene.passing is not None and not scene.passing.any():
        return filtered(len(scene.layout), "in the store")
    if scene.allowed is not None and not scene.allowed.any():
        lacking = unknown(
            [term for term in terms if term.term.startswith('"')]
        )  # a phrase that stands alone must be there
        return lacking or excluded(
            len(scene.layout) if scene.passing is None else int(scene.passing.sum())
        )
    if withheld := int((ranked.scores > 0).sum()):
        return _withheld(ranked, withheld)
    return _too_little(terms, text, vector, scene.allowed)


def unknown(terms: Sequence[TermTold]) -> Nothing | None:
    """Where some of the terms are in no record."""
    missing = [term for term in terms if term.state == "unknown"]
    if not missing:
        return None
    meant = [
        f"{term.suggestion!r} is nearest to {term.term!r}" for term in missing if term.suggestion
    ]
    told = "no record has " + ", ".join(repr(term.term) for term in missing[:8])
    return Nothing("unknown", told + "".join(f"; {one}" for one in meant))


def filtered(records: int, what: str = "that would be found") -> Nothing:
    """There are so many records, and none passes."""
    return Nothing("filtered", f"no record passes the filters; there are {records} {what}")


def excluded(records: int) -> Nothing:
    """So many records were found that pass the filters."""
    return Nothing(
        "excluded",
        "every record that would be found has something that the query excludes, or lacks a phrase of "
        f"it; there are {records}",
    )


def _withheld(ranked: Ranked, count: int) -> Nothing:
    """What has scores is not allowed, or not wanted."""
    if len(candidates(ranked.scores, ranked.scene)):
        return NO_LIMIT
    passing = ranked.scene.passing
    left = count if passing is None else int(((ranked.scores > 0) & passing).sum())
    return excluded(left) if left else filtered(count)


def _too_little(
    terms: Sequence[TermTold],
    text: TextFound | None,
    vector: VectorFound | None,
    allowed: np.ndarray | None,
) -> Nothing:
    """Nothing has a score."""
    near = ""
    if vector is not None:
        known = vector.known if allowed is None else vector.known & allowed
        nearest = float(vector.score[known].max(initial=0))
        near = f"the nearest record in meaning has {nearest:.2f}, and {vector.least:.2f} is needed"
    if text is None:
        return Nothing("below threshold", near)
    missing = unknown(terms)
    if missing is not None and not any(term.records for term in terms):
        return Nothing("unknown", "; ".join(filter(None, (missing.detail, near))))
    told = f"the store knows {text.coverage:.2f} of what is asked for, by weight, and {text.least:.2f} is needed"
    return Nothing(
        "below threshold", "; ".join(filter(None, (told, missing.detail if missing else "", near)))
    )

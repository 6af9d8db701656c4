"""Whether two short facts are the same, related, or two things: one number on SOAT's scale, and the
reason."""

import math
from typing import NamedTuple

from memory.likeness.curves import Curve, curve_of, related, same
from memory.likeness.guard import difference
from memory.likeness.matching import match
from memory.likeness.plain import one_form, plain
from memory.likeness.reading import read

NEAR = 0.99  # the same but for small things, without any embedder
WORDS = 0.80  # each word of the one in the other, without an embedder: related, and no more is sure
MOST_LINES = 16  # of an entry that was merged, which are compared one by one


class Likeness(NamedTuple):
    """How alike two facts are."""

    score: float  # 0 to 1; from 0.95 on the same, from 0.75 on related
    why: str  # in a few words


SAME_TEXT = Likeness(1.0, "the same text")


def alike(new: str, old: str, cosine: float | None, fingerprint: str) -> Likeness:
    """How alike a new fact is to an entry, of whose vectors `cosine` is (None: there is none), by
    the embedder `fingerprint`.

    Raises nothing, whatever the texts are. Symmetric, but for an entry of several lines, which is
    as alike as its likest.
    """
    if new == old:
        return SAME_TEXT
    bare = plain(new)
    if bare and (bare == plain(old) or bare in map(plain, old.split("\n"))):
        return SAME_TEXT
    curve = curve_of(fingerprint)
    if cosine is not None and not math.isfinite(cosine):
        cosine = None
    lines = [line for line in old.split("\n") if line.strip()] if "\n" in old else []
    if not 1 < len(lines) <= MOST_LINES:
        lines = [old]
    return max((_judged(new, line, cosine, curve) for line in lines), key=lambda one: one.score)


def _judged(new: str, old: str, cosine: float | None, curve: Curve) -> Likeness:
    """Two facts of a line each."""
    if cosine is not None and cosine < curve.same:
        return Likeness(related(cosine, curve), "by the embedder")
    one, other = read(one_form(new)), read(one_form(old))
    if one is None or other is None:
        return _capped(cosine, curve, "too long to be compared word by word")
    if one.near and one.near == other.near:
        return Likeness(NEAR, "the same but for articles and spelling")
    if not one.words or not other.words:
        return _capped(cosine, curve, "no words to compare")
    matched = match(one, other)
    reason = difference(one, other, matched)
    if reason:
        return _capped(cosine, curve, reason)
    if cosine is None:
        return Likeness(WORDS, "the same words")
    return Likeness(same(cosine, curve), "words of the same meaning")


def _capped(cosine: float | None, curve: Curve, reason: str) -> Likeness:
    """What is not the same, however near."""
    return Likeness(0.0 if cosine is None else related(cosine, curve), reason)

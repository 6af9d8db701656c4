"""Whether two short facts are the same, related, or two things: one number on SOAT's scale, and the
reason."""

import math
from typing import NamedTuple

from memrelay.memory.dedup.alignment import match
from memrelay.memory.dedup.normalize import one_form, plain
from memrelay.memory.dedup.parser import read
from memrelay.memory.dedup.rules import difference

# From an embedder's cosine to SOAT's scale, on which 0.95 is a duplicate and 0.75 related
# (004_b7bbdd40b27e8d55.txt).

DUPLICATE, RELATED = 0.95, 0.75  # the document's thresholds
CAP = 0.94  # the most that a pair can have that is not the same


class Curve(NamedTuple):
    """Cosines of an embedder."""

    related: float  # from which on texts are related
    # from which on they are the same, if each word of the one has its partner in the other
    same: float


CURVES = {
    "all-MiniLM-L6-v2-int8": Curve(0.60, 0.45),
    "wordllama-l2-supercat": Curve(0.60, 0.55),  # knows no order of words and little of their sense
}
CAREFUL = Curve(0.85, 0.85)  # of an embedder that nobody has measured


def curve_of(fingerprint: str) -> Curve:
    """That of the embedder whose fingerprint it is, by the name before its first slash."""
    return CURVES.get(fingerprint.partition("/")[0], CAREFUL)


def related(cosine: float, curve: Curve) -> float:
    """The score of two facts that are not the same: straight from 0 to 0.75 and on to the cap."""
    least = curve.related
    if cosine < least:
        return round(max(cosine, 0.0) / least * RELATED, 4)
    return round(RELATED + (min(cosine, 1.0) - least) / (1 - least) * (CAP - RELATED), 4)


def same(cosine: float, curve: Curve) -> float:
    """The score of two facts that are the same."""
    return round(
        DUPLICATE + (min(cosine, 1.0) - curve.same) / (1 - curve.same) * (1 - DUPLICATE), 4
    )


NEAR = 0.99  # the same but for small things, without any embedder
WORDS = 0.80  # each word of the one in the other, without an embedder: related, and no more is sure
MOST_LINES = 16  # of an entry that was merged, which are compared one by one


class Similarity(NamedTuple):
    """How compare two facts are."""

    score: float  # 0 to 1; from 0.95 on the same, from 0.75 on related
    why: str  # in a few words


SAME_TEXT = Similarity(1.0, "the same text")


def compare(new: str, old: str, cosine: float | None, fingerprint: str) -> Similarity:
    """How compare a new fact is to an entry, of whose vectors `cosine` is (None: there is none), by
    the embedder `fingerprint`.

    Raises nothing, whatever the texts are. Symmetric, but for an entry of several lines, which is
    as compare as its likest.
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


def _judged(new: str, old: str, cosine: float | None, curve: Curve) -> Similarity:
    """Two facts of a line each."""
    if cosine is not None and cosine < curve.same:
        return Similarity(related(cosine, curve), "by the embedder")
    one, other = read(one_form(new)), read(one_form(old))
    if one is None or other is None:
        return _capped(cosine, curve, "too long to be compared word by word")
    if one.near and one.near == other.near:
        return Similarity(NEAR, "the same but for articles and spelling")
    if not one.words or not other.words:
        return _capped(cosine, curve, "no words to compare")
    matched = match(one, other)
    reason = difference(one, other, matched)
    if reason:
        return _capped(cosine, curve, reason)
    if cosine is None:
        return Similarity(WORDS, "the same words")
    return Similarity(same(cosine, curve), "words of the same meaning")


def _capped(cosine: float | None, curve: Curve, reason: str) -> Similarity:
    """What is not the same, however near."""
    return Similarity(0.0 if cosine is None else related(cosine, curve), reason)

"""Compares two short facts: a score on SOAT's scale, and the reason for it."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from memrelay.memory.models.named_memories.dedup.alignment import align
from memrelay.memory.models.named_memories.dedup.contradiction import (
    Relation,
    is_score_lowered,
    relate,
)
from memrelay.memory.models.named_memories.dedup.parser import parse
from memrelay.memory.models.named_memories.dedup.rules import (
    NEGATED,
    NUMBERS_DIFFER,
    OPPOSITES,
    PERSONS_DIFFER,
    WORDS_DIFFER,
    difference,
)
from memrelay.memory.models.named_memories.dedup.tokenizer import comparable_form, normalize

CAP = 0.94  # the highest score of facts that differ
APART = 0.74  # the highest score of facts about different subjects, attributes or numbers
NEARLY_EQUAL = 0.99  # the score of texts that differ only in articles and spelling
ALL_WORDS_PAIRED = 0.80  # the score of texts whose words all pair up, if there is no cosine
FOREIGN = "the rules know only English, and the texts are not equal"
MOST_LINES = 16  # lines of a merged entry that are compared separately


# The thresholds of SOAT (004_b7bbdd40b27e8d55.txt).
DUPLICATE, RELATED = 0.95, 0.75


class Curve(NamedTuple):
    """Thresholds of an embedder's cosines."""

    related_from: float  # the cosine from which on texts are related
    same_from: float  # the cosine from which on texts are the same, if all words pair up


CURVES = {
    "all-MiniLM-L6-v2-int8": Curve(0.60, 0.45),
    # the same quantiles of the pairs of texts that were measured with MiniLM
    "bge-small-en-v1.5-int8": Curve(0.78, 0.70),
    "wordllama-l2-supercat": Curve(0.60, 0.55),  # insensitive to word order and fine meaning
}
CAREFUL = Curve(0.85, 0.85)  # for embedders that were not measured


class Similarity(NamedTuple):
    """The similarity of two facts."""

    score: float  # 0 to 1; the same fact from 0.95, related from 0.75
    why: str  # the reason, in a few words


SAME_TEXT = Similarity(1.0, "the same text")
SAME_BUT_FORM = Similarity(1.0, "the same text except for case, spaces or punctuation")


def compare(new: str, old: str, cosine: float | None, fingerprint: str) -> Similarity:
    """Compare a new fact with an entry.

    `cosine` is that of their vectors by the embedder `fingerprint`; None without vectors. For an
    entry of several lines, the most similar line counts. Otherwise the order of the facts does
    not matter. Never raises.
    """
    if new == old:
        return SAME_TEXT
    bare = comparable_form(new)
    if bare and (bare == comparable_form(old) or bare in map(comparable_form, old.split("\n"))):
        return SAME_BUT_FORM
    curve = curve_of(fingerprint)
    if cosine is not None and not math.isfinite(cosine):
        cosine = None
    lines = [line for line in old.split("\n") if line.strip()] if "\n" in old else []
    if not 1 < len(lines) <= MOST_LINES:
        lines = [old]
    return max(
        (_compare_line(new, line, cosine, curve) for line in lines), key=lambda one: one.score
    )


def _compare_line(new: str, old: str, cosine: float | None, curve: Curve) -> Similarity:
    """Compare two facts of one line."""
    if cosine is not None and cosine < curve.same_from:
        return Similarity(related_score(cosine, curve), "by the embedder")
    one, other = parse(normalize(new)), parse(normalize(old))
    if one is None or other is None:
        return _different(cosine, curve, "too long to be compared word by word")
    if one.content and one.content == other.content:
        return Similarity(NEARLY_EQUAL, "the same but for articles and spelling")
    if not one.words or not other.words:
        return _different(cosine, curve, "no words to compare")
    matched = align(one, other)
    reason = difference(one, other, matched)
    is_apart = is_score_lowered(one, other, matched, reason)
    if not (one.is_english and other.is_english) and reason != NUMBERS_DIFFER:
        reason = FOREIGN
    if reason:
        differing = _different(cosine, curve, reason)
        return differing._replace(score=min(differing.score, APART)) if is_apart else differing
    if cosine is None:
        return Similarity(ALL_WORDS_PAIRED, "the same words")
    return Similarity(same_score(cosine, curve), "words of the same meaning")


def _different(cosine: float | None, curve: Curve, reason: str) -> Similarity:
    """Return the score of facts that differ, however near their vectors are."""
    return Similarity(0.0 if cosine is None else related_score(cosine, curve), reason)


def curve_of(fingerprint: str) -> Curve:
    """Return the thresholds of an embedder, by the name before the slash in its fingerprint."""
    return CURVES.get(fingerprint.partition("/")[0], CAREFUL)


def related_score(cosine: float, curve: Curve) -> float:
    """Return the score of facts that differ: linear up to 0.75, then linear up to the cap."""
    least = curve.related_from
    if cosine < least:
        return round(max(cosine, 0.0) / least * RELATED, 4)
    return round(RELATED + (min(cosine, 1.0) - least) / (1 - least) * (CAP - RELATED), 4)


def same_score(cosine: float, curve: Curve) -> float:
    """Return the score of facts that are the same."""
    return round(
        DUPLICATE + (min(cosine, 1.0) - curve.same_from) / (1 - curve.same_from) * (1 - DUPLICATE),
        4,
    )


def is_contradicted_later(fact: str, lines: Sequence[str]) -> bool:
    """Return whether a line states the fact, and a later one contradicts it.

    `lines` are those of an entry, the oldest first. The last `MOST_LINES` are compared by words,
    earlier ones only for equality.
    """
    contradicted, last = False, lines[-MOST_LINES:]
    for line in reversed(last):
        if compare(fact, line, None, "").score >= ALL_WORDS_PAIRED:
            return contradicted
        contradicted = contradicted or _may_contradict(fact, line) or contradicts(fact, line)
    bare = comparable_form(fact)
    return contradicted and any(comparable_form(line) == bare for line in lines[: -len(last)])


def contradicts(new: str, old: str) -> bool:
    """Return whether a fact gives the attribute of another one a new value, or denies it.

    "lives in Berlin" contradicts "lives in Munich". "likes tea" does not contradict "likes
    coffee", and a fact with more words only adds a detail. In other languages than English, only
    values of which one is a number contradict each other.
    """
    one, other = parse(normalize(new)), parse(normalize(old))
    if one is None or other is None:
        return False
    matched = align(one, other)
    reason = difference(one, other, matched)
    if not reason or not ((one.is_english and other.is_english) or reason == NUMBERS_DIFFER):
        return False
    return relate(one, other, matched, reason) is Relation.CONTRADICTS


def have_same_topic(one: str, other: str) -> bool:
    """Return whether two facts are about the same subject, and share half of their words."""
    first, second = parse(normalize(one)), parse(normalize(other))
    if first is None or second is None:
        return False
    matched = align(first, second)
    if 2 * len(matched.pairs) < min(len(first.words), len(second.words)) or not matched.pairs:
        return False
    reason = difference(first, second, matched)
    return not reason or relate(first, second, matched, reason) is not Relation.APART


def _may_contradict(new: str, old: str) -> bool:
    """Return whether a later line of the same entry ends the state that a line describes.

    The lines of an entry are about one thing, so fewer words decide: Berlin, Munich.
    """
    one, other = parse(normalize(new)), parse(normalize(old))
    if one is None or other is None:
        return False
    matched = align(one, other)
    left, right = len(matched.left), len(matched.right)
    if len(one.words) == len(other.words) == 1 == left:  # values without a subject
        return True
    if len(matched.pairs) < max(left, right, 1):
        return False
    reason = difference(one, other, matched)
    if bool(left) != bool(right):
        return reason in (NEGATED, OPPOSITES)
    if reason == WORDS_DIFFER:
        return left == right == 1
    return reason not in ("", PERSONS_DIFFER)

"""Finds out whether a fact that an entry states was contradicted by a later line of the entry."""

from collections.abc import Sequence

from memrelay.memory.dedup.alignment import align
from memrelay.memory.dedup.normalize import normalize
from memrelay.memory.dedup.parser import parse
from memrelay.memory.dedup.rules import difference
from memrelay.memory.dedup.similarity import ALL_WORDS_PAIRED, MOST_LINES, compare

# Reasons that hold without an unmatched word, or with unmatched words in only one of two facts.
_WITHOUT_WORDS = ("one denies", "opposites")


def is_contradicted_later(fact: str, lines: Sequence[str]) -> bool:
    """Return whether the last line that states or contradicts the fact contradicts it.

    `lines` are those of an entry, the oldest first. Only the last `MOST_LINES` are compared.
    """
    for line in reversed(lines[-MOST_LINES:]):
        if compare(fact, line, None, "").score >= ALL_WORDS_PAIRED:
            return False
        if contradicts(fact, line):
            return True
    return False


def contradicts(new: str, old: str) -> bool:
    """Return whether two facts give the same thing different values.

    Berlin replaces Munich in "lives in Munich". A fact with more words only adds a detail.
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
        return reason in _WITHOUT_WORDS
    if reason == "words differ":
        return left == right == 1
    return reason not in ("", "persons differ")

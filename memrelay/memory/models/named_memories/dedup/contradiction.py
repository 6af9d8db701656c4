"""Finds out whether a fact that an entry states was contradicted by a later line of the entry."""

from collections.abc import Sequence

from memrelay.memory.models.named_memories.dedup.alignment import align
from memrelay.memory.models.named_memories.dedup.normalize import comparable_form, normalize
from memrelay.memory.models.named_memories.dedup.parser import parse
from memrelay.memory.models.named_memories.dedup.rules import difference
from memrelay.memory.models.named_memories.dedup.similarity import (
    ALL_WORDS_PAIRED,
    MOST_LINES,
    compare,
)

# Reasons that hold without an unmatched word, or with unmatched words in only one of two facts.
_WITHOUT_WORDS = ("one denies", "opposites")


def is_contradicted_later(fact: str, lines: Sequence[str]) -> bool:
    """Return whether a line states the fact, and a later one contradicts it.

    `lines` are those of an entry, the oldest first. The last `MOST_LINES` are compared by words,
    earlier ones only for equality.
    """
    contradicted, last = False, lines[-MOST_LINES:]
    for line in reversed(last):
        if compare(fact, line, None, "").score >= ALL_WORDS_PAIRED:
            return contradicted
        contradicted = contradicted or contradicts(fact, line)
    bare = comparable_form(fact)
    return contradicted and any(comparable_form(line) == bare for line in lines[: -len(last)])


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

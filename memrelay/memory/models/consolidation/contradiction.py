"""Decide whether two facts of one line exclude each other: precision comes before recall.

The rules of deduplication find another value of the same attribute. A write in the mode `current`
may take them at their word, because it is the newer text. A proposal asks a person, so it needs
more: the texts differ in one place, by a denial, a number, a name, or the value of one attribute.
"""

import re
from itertools import takewhile

from memrelay.memory.models.named_memories.dedup.alignment import Alignment, align
from memrelay.memory.models.named_memories.dedup.parser import ParsedFact, parse
from memrelay.memory.models.named_memories.dedup.rules import NEGATED, OPPOSITES, difference
from memrelay.memory.models.named_memories.dedup.similarity import contradicts
from memrelay.memory.models.named_memories.dedup.tokenizer import normalize
from memrelay.memory.search.text.words import plain_tokens

# Words that deny a sentence, in languages that the rules of deduplication do not know.
NEGATIONS = frozenset(
    (
        *("nicht", "kein", "keine", "keinen", "keinem", "keiner", "nie"),
        *("n", "ne", "pas", "jamais", "no", "non", "nunca", "mai", "não"),
        *("niet", "geen", "nooit", "inte", "aldrig", "ikke", "aldri", "ei", "не", "никогда"),
    )
)
# Words that two texts must share besides the negation.
LEAST_WORDS = 3
# Two texts that contradict each other differ in so many words, and share so many.
MOST_DIFFERENT, LEAST_SHARED = 3, 2
DIRECTIONS = frozenset(
    (
        *("before", "after", "above", "below", "first", "last", "from", "to"),
        *("with", "without", "left", "right", "up", "down"),
    )
)
PREPOSITIONS = frozenset(("for", "in", "on", "at", "by", "as"))
# One may have several things: has offices in Rome.
OWNS = frozenset(("has", "have", "had"))
WEEKDAYS = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days\b")
# What is done in one place, or for one purpose, may be done in others: is disabled in tests.
DONE_IN = re.compile(
    r"\b(?:is|are|was|were)(?: not)? (\w{2,40}ed) "
    r"(?:in|on|at|for|by|during|with) (?:the )?([^\W\d]+)"
)
# A thing is in one place.
PLACED = frozenset(("located", "based", "hosted", "stored", "scheduled", "married", "parked"))
# A subject with an attribute that has one value: the user's color is, the linter of the project is.
ATTRIBUTE = re.compile(r"(?:'s | of )[^.,;]{1,100} (?:is|are|was|were)$")


def exclude_each_other(one: str, other: str) -> bool:
    """Return whether two facts cannot both be true."""
    if _differ_by_negation(one, other):
        return True
    if _can_both_hold(one.casefold(), other.casefold()):
        return False
    first, second = parse(normalize(one)), parse(normalize(other))
    if first is None or second is None or not _differ_in_one_place(first, second):
        return False
    matched = align(first, second)
    has_value = difference(first, second, matched) in (NEGATED, OPPOSITES) or _has_one_value(
        matched, first, second
    )
    return has_value and contradicts(one, other) and contradicts(other, one)


def _differ_by_negation(one: str, other: str) -> bool:
    """Return whether two texts are equal except for a word that denies one of them."""
    words = plain_tokens(one), plain_tokens(other)
    bare = [[word for word in text if word not in NEGATIONS] for text in words]
    denied = [len(text) > len(rest) for text, rest in zip(words, bare, strict=True)]
    return bare[0] == bare[1] and denied[0] != denied[1] and len(bare[0]) >= LEAST_WORDS


def _can_both_hold(one: str, other: str) -> bool:
    """Return whether two facts are habits on several weekdays, or about several places."""
    days = [set(WEEKDAYS.findall(text)) for text in (one, other)]
    if all(days) and days[0] != days[1]:
        return True
    done = [DONE_IN.search(text) for text in (one, other)]
    if not (done[0] and done[1]):
        return False
    return done[0][1] not in PLACED and done[0][2] != done[1][2]


def _differ_in_one_place(one: ParsedFact, other: ParsedFact) -> bool:
    """Return whether two facts share their beginning and end, and differ only in a few words
    between, none of which is a direction.
    """
    spans, shared = _split_shared(one, other)
    if max(map(len, spans)) > MOST_DIFFERENT or shared < LEAST_SHARED:
        return False
    return not DIRECTIONS.intersection(spans[0] + spans[1])


def _split_shared(one: ParsedFact, other: ParsedFact) -> tuple[tuple[tuple[str, ...], ...], int]:
    """Return the words of each fact between their shared beginning and end, and the number of
    shared words.
    """
    start = _count_equal(one.content, other.content)
    rests = one.content[start:], other.content[start:]
    end = _count_equal(rests[0][::-1], rests[1][::-1])
    return tuple(rest[: len(rest) - end] for rest in rests), start + end


def _count_equal(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Return how many words at the beginning are equal."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _has_one_value(matched: Alignment, one: ParsedFact, other: ParsedFact) -> bool:
    """Return whether the unmatched words are numbers, names, or the value of one attribute."""
    words = matched.left + matched.right
    if not (matched.left and matched.right):
        return False
    start = _count_equal(one.content, other.content)
    if ATTRIBUTE.search(" ".join(one.content[:start])):
        return True
    spans, shared = _split_shared(one, other)
    if all(word.is_number for word in words):
        # In other languages a number within a text may distinguish two things: invoice 12 is paid.
        return one.is_english or shared == start
    if all(word.is_name for word in words):
        return not OWNS.intersection(one.content)
    if all(word.is_capital for word in words):
        return one.names_role and other.names_role
    following = one.content[start + len(spans[0]) :][:1]
    is_object = start >= LEAST_SHARED and PREPOSITIONS.issuperset(following) and bool(following)
    return is_object and not any(word.is_number for word in words) and max(map(len, spans)) == 1

"""Alignment: pairs the words of two facts and collects the words without a partner."""

from collections.abc import Callable
from itertools import permutations
from typing import NamedTuple

from memrelay.memory.models.named_memories.dedup.lexicon import complements, look_up
from memrelay.memory.models.named_memories.dedup.numbers import WEAK
from memrelay.memory.models.named_memories.dedup.parser import ParsedFact, Word

# Unmatched words up to which compounds and negated words are tried.
MAX_UNMATCHED = 3

_NEGATING = ("un", "in", "im", "ir", "il", "non", "dis", "mis", "a", "de")


class Alignment(NamedTuple):
    """Two facts, aligned word by word."""

    pairs: tuple[tuple[int, int], ...]  # places in the first and second fact
    left: tuple[Word, ...]  # unmatched words of the first fact
    right: tuple[Word, ...]  # unmatched words of the second fact
    negated_pairs: int  # pairs in which one word negates the other, like safe and unsafe


def align(one: ParsedFact, other: ParsedFact) -> Alignment:
    """Pair equal words, then words of the same meaning.

    If numbers are unmatched, the facts differ anyway, and meaning is not compared.
    """
    left, right = list(range(len(one.words))), list(range(len(other.words)))
    pairs = _pair_equal(one, other, left, right)
    negated_pairs = 0
    if (
        left
        and right
        and not any(one.words[at].is_number for at in left)
        and not any(other.words[at].is_number for at in right)
    ):
        _pair_matching(one, other, (left, right, pairs), _share_meaning)
        similar = len(pairs)
        if len(left) <= MAX_UNMATCHED and len(right) <= MAX_UNMATCHED:
            _pair_matching(one, other, (left, right, pairs), _is_negation)
            negated_pairs = len(pairs) - similar
            _pair_compounds(one, left, other, right)
            _pair_compounds(other, right, one, left)
    return Alignment(
        tuple(pairs), _unmatched(one, left, other), _unmatched(other, right, one), negated_pairs
    )


def _pair_equal(
    one: ParsedFact, other: ParsedFact, left: list[int], right: list[int]
) -> list[tuple[int, int]]:
    """Pair words with the same stem in order, and remove them from the unmatched places."""
    places: dict[str, list[int]] = {}
    for at in reversed(right):
        places.setdefault(other.words[at].entry.stem, []).append(at)
    pairs = [
        (at, found.pop())
        for at in left
        if (found := places.get(one.words[at].entry.stem))
        and not _are_distinct_names(one.words[at], other.words[found[-1]])
    ]
    for at, near in pairs:
        left.remove(at)
        right.remove(near)
    return pairs


def _pair_matching(
    one: ParsedFact,
    other: ParsedFact,
    state: tuple[list[int], list[int], list[tuple[int, int]]],
    fits: Callable[[Word, Word], bool],
) -> None:
    """Pair unmatched words that fit, and remove them from the unmatched places."""
    left, right, pairs = state
    for at in tuple(left):
        word = one.words[at]
        for near in right:
            if fits(word, other.words[near]):
                left.remove(at)
                right.remove(near)
                pairs.append((at, near))
                break


def _share_meaning(word: Word, other: Word) -> bool:
    """Return whether the words share a meaning, or are spellings of one word."""
    a, b = word.entry, other.entry
    if a.groups.isdisjoint(b.groups) and (
        a.root != b.root or not a.root or _persons(word, other) or _are_distinct_names(word, other)
    ):
        return False
    return not a.excludes(b)


def _are_distinct_names(word: Word, other: Word) -> bool:
    """Return whether the words are different names: Daniel and Danielle, Peter and Peters."""
    names = (
        word.is_name
        or other.is_name
        or (word.starts_sentence and other.starts_sentence and not word.entry.groups)
    )
    return names and word.text != other.text


def _persons(word: Word, other: Word) -> bool:
    """Return whether one word is the actor and the other the recipient: employer, employee."""
    ends = word.text.rstrip("s")[-2:], other.text.rstrip("s")[-2:]
    return ends in (("er", "ee"), ("ee", "er"), ("or", "ee"), ("ee", "or"))


def _is_negation(word: Word, other: Word) -> bool:
    """Return whether one word negates the other: open and closed, safe and unsafe."""
    if complements(word.entry, other.entry):
        return True
    short, long = (
        (word.text, other.text) if len(word.text) < len(other.text) else (other.text, word.text)
    )
    return (
        len(short) > 3
        and long.startswith(_NEGATING)
        and any(
            look_up(long.removeprefix(prefix)).stem == look_up(short).stem
            for prefix in _NEGATING
            if long.startswith(prefix)
        )
    )


def _pair_compounds(one: ParsedFact, left: list[int], other: ParsedFact, right: list[int]) -> None:
    """Pair two words with a compound of them: time zone and timezone, made by hand and handmade."""
    for two in permutations(left, 2):
        together = one.words[two[0]].text + one.words[two[1]].text
        found = next(
            (
                near
                for near in right
                if len(together) > 5 and _differ_by_ending(other.words[near].text, together)
            ),
            None,
        )
        if found is not None and two[0] in left and two[1] in left:
            left.remove(two[0])
            left.remove(two[1])
            right.remove(found)


def _differ_by_ending(word: str, other: str) -> bool:
    """Return whether the words differ only in an ending."""
    return abs(len(word) - len(other)) < 3 and (word.startswith(other) or other.startswith(word))


def _unmatched(fact: ParsedFact, places: list[int], other: ParsedFact) -> tuple[Word, ...]:
    """Return the unmatched words, without those that repeat a meaning: calls in phone calls."""
    words = [fact.words[at] for at in places if fact.words[at].text != WEAK]
    if len(words) > MAX_UNMATCHED:
        return tuple(words)
    return tuple(
        word
        for word in words
        if word.is_number
        or word.is_name
        or not any(_share_meaning(word, near) for near in other.words)
    )

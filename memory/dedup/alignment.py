"""Which words of two facts stand for one another, and which are left over."""

from collections.abc import Callable
from itertools import permutations
from typing import NamedTuple

from memrelay.memory.dedup.lexicon import complements, known
from memrelay.memory.dedup.numbers import WEAK
from memrelay.memory.dedup.parser import Reading, Word

MOST_LEFT = 3  # words that are left over, of which it is tried what they are together

_NEGATING = ("un", "in", "im", "ir", "il", "non", "dis", "mis", "a", "de")


class Match(NamedTuple):
    """Two facts, word by word."""

    pairs: tuple[tuple[int, int], ...]  # places in the one and the other
    left: tuple[Word, ...]  # of the one, without a partner
    right: tuple[Word, ...]
    turned: int  # pairs of which one is the other's negation, as unsafe is of safe


def match(one: Reading, other: Reading) -> Match:
    """Equal words first, then words of one meaning. Where numbers are left over, the rest is not
    looked at."""
    left, right = list(range(len(one.words))), list(range(len(other.words)))
    pairs = _equal(one, other, left, right)
    turned = 0
    if (
        left
        and right
        and not any(one.words[at].number for at in left)
        and not any(other.words[at].number for at in right)
    ):
        _pair(one, other, (left, right, pairs), _akin)
        akin = len(pairs)
        if len(left) <= MOST_LEFT and len(right) <= MOST_LEFT:
            _pair(one, other, (left, right, pairs), _turned)
            turned = len(pairs) - akin
            _join(one, left, other, right)
            _join(other, right, one, left)
    return Match(tuple(pairs), _rest(one, left, other), _rest(other, right, one), turned)


def _equal(
    one: Reading, other: Reading, left: list[int], right: list[int]
) -> list[tuple[int, int]]:
    """Pairs of words with one stem, in order, which are taken out of what is left."""
    places: dict[str, list[int]] = {}
    for at in reversed(right):
        places.setdefault(other.words[at].known.stem, []).append(at)
    pairs = [
        (at, found.pop())
        for at in left
        if (found := places.get(one.words[at].known.stem))
        and not _two_names(one.words[at], other.words[found[-1]])
    ]
    for at, near in pairs:
        left.remove(at)
        right.remove(near)
    return pairs


def _pair(
    one: Reading,
    other: Reading,
    state: tuple[list[int], list[int], list[tuple[int, int]]],
    fits: Callable[[Word, Word], bool],
) -> None:
    """Moves the places of words that fit from what is left into the pairs."""
    left, right, pairs = state
    for at in tuple(left):
        word = one.words[at]
        for near in right:
            if fits(word, other.words[near]):
                left.remove(at)
                right.remove(near)
                pairs.append((at, near))
                break


def _akin(word: Word, other: Word) -> bool:
    """Words of one meaning, or one word in two spellings."""
    a, b = word.known, other.known
    if a.groups.isdisjoint(b.groups) and (
        a.root != b.root or not a.root or _persons(word, other) or _two_names(word, other)
    ):
        return False
    return not a.excludes(b)


def _two_names(word: Word, other: Word) -> bool:
    """Whether they are names that differ, or may be: Daniel and Danielle, Peter and Peters."""
    names = word.name or other.name or (word.head and other.head and not word.known.groups)
    return names and word.text != other.text


def _persons(word: Word, other: Word) -> bool:
    """Whether one is who does it and the other whom it is done to: employer, employee."""
    ends = word.text.rstrip("s")[-2:], other.text.rstrip("s")[-2:]
    return ends in (("er", "ee"), ("ee", "er"), ("or", "ee"), ("ee", "or"))


def _turned(word: Word, other: Word) -> bool:
    """Whether one is what the other is not: open and closed, or one is the other behind un-, in- or
    dis-."""
    if complements(word.known, other.known):
        return True
    short, long = (
        (word.text, other.text) if len(word.text) < len(other.text) else (other.text, word.text)
    )
    return (
        len(short) > 3
        and long.startswith(_NEGATING)
        and any(
            known(long.removeprefix(prefix)).stem == known(short).stem
            for prefix in _NEGATING
            if long.startswith(prefix)
        )
    )


def _join(one: Reading, left: list[int], other: Reading, right: list[int]) -> None:
    """Two words that are written as one in the other text, in any order: time zone and timezone,
    made by hand and handmade."""
    for two in permutations(left, 2):
        together = one.words[two[0]].text + one.words[two[1]].text
        found = next(
            (
                near
                for near in right
                if len(together) > 5 and _nearly(other.words[near].text, together)
            ),
            None,
        )
        if found is not None and two[0] in left and two[1] in left:
            left.remove(two[0])
            left.remove(two[1])
            right.remove(found)


def _nearly(word: str, other: str) -> bool:
    """Whether they are one but for an ending."""
    return abs(len(word) - len(other)) < 3 and (word.startswith(other) or other.startswith(word))


def _rest(reading: Reading, places: list[int], other: Reading) -> tuple[Word, ...]:
    """Without what repeats a word that the other has: phone calls, where it says phone."""
    words = [reading.words[at] for at in places if reading.words[at].text != WEAK]
    if len(words) > MOST_LEFT:
        return tuple(words)
    return tuple(
        word
        for word in words
        if word.number or word.name or not any(_akin(word, near) for near in other.words)
    )

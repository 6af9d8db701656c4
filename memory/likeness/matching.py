"""Which words of two facts stand for one another, and which are left over."""
from collections.abc import Callable
from typing import NamedTuple

from memory.likeness.lexicon import known, root
from memory.likeness.numbers import WEAK
from memory.likeness.reading import Reading, Word

_NEGATING = ("un", "in", "im", "ir", "il", "non", "dis", "mis", "a", "de")


class Match(NamedTuple):
    """Two facts, word by word."""

    pairs: tuple[tuple[int, int], ...]   # places in the one and the other
    left: tuple[Word, ...]               # of the one, without a partner
    right: tuple[Word, ...]
    loose: int                           # pairs that only mean the same
    turned: int                          # pairs of which one is the other's negation, as unsafe is of safe


def match(one: Reading, other: Reading) -> Match:
    """Equal words first, then words of one meaning."""
    pairs: list[tuple[int, int]] = []
    left, right = list(range(len(one.words))), list(range(len(other.words)))
    if one.words == other.words:
        return Match(tuple((at, at) for at in left), (), (), 0, 0)
    _pair(one, other, (left, right, pairs), _same)
    equal = len(pairs)
    if left and right:
        _pair(one, other, (left, right, pairs), _akin)
    turned = len(pairs)
    if left and right:
        _pair(one, other, (left, right, pairs), _turned)
    turned = len(pairs) - turned
    _join(one, left, other, right)
    _join(other, right, one, left)
    return Match(tuple(pairs), _rest(one, left, other), _rest(other, right, one), len(pairs) - equal, turned)


def _pair(one: Reading, other: Reading, state: tuple[list[int], list[int], list[tuple[int, int]]],
          fits: Callable[[Word, Word], bool]) -> None:
    """Moves the places of words that fit from what is left into the pairs."""
    left, right, pairs = state
    for at in tuple(left):
        word = one.words[at]
        found = next((near for near in right if fits(word, other.words[near])), None)
        if found is not None:
            left.remove(at)
            right.remove(found)
            pairs.append((at, found))


def _same(word: Word, other: Word) -> bool:
    return word.known.stem == other.known.stem


def _akin(word: Word, other: Word) -> bool:
    """Words of one meaning, or one word in two spellings. A name stands for itself alone, and so does a number."""
    if word.number or other.number:
        return False
    akin = word.known.means(other.known) or (root(word.known.stem) == root(other.known.stem) and not _persons(word, other))
    return akin and not word.known.excludes(other.known)


def _persons(word: Word, other: Word) -> bool:
    """Whether one is who does it and the other whom it is done to: employer, employee."""
    ends = word.text.rstrip("s")[-2:], other.text.rstrip("s")[-2:]
    return ends in (("er", "ee"), ("ee", "er"), ("or", "ee"), ("ee", "or"))


def _turned(word: Word, other: Word) -> bool:
    """Whether one is the other behind un-, in- or dis-."""
    short, long = sorted((word.text, other.text), key=len)
    return len(short) > 3 and not word.number and any(
        long.startswith(prefix) and known(long[len(prefix):]).stem == known(short).stem for prefix in _NEGATING)


def _join(one: Reading, left: list[int], other: Reading, right: list[int]) -> None:
    """Two words that are written as one in the other text: time zone, timezone."""
    for at in tuple(left):
        if at + 1 in left:
            together = one.words[at].text + one.words[at + 1].text
            found = next((near for near in right if other.words[near].text == together), None)
            if found is not None:
                left.remove(at)
                left.remove(at + 1)
                right.remove(found)


def _rest(reading: Reading, places: list[int], other: Reading) -> tuple[Word, ...]:
    """Without what repeats a word that the other has: phone calls, where it says phone."""
    words = [reading.words[at] for at in places]
    return tuple(word for word in words if word.text != WEAK and (word.number or word.name or not any(
        _akin(word, near) for near in other.words)))

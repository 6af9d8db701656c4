"""The words that are known: which stand for one another, which exclude one another, and what an
irregular form is a form of.

The lists are English first, with a few words of other languages. memory/likeness/words/ has them.
"""

import threading
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from memrelay.memory.dedup.irregular import FORMS, lines
from memrelay.memory.dedup.phrases import phrases
from memrelay.memory.text.stems import Stems

LONGEST = 40  # letters of a word that has a stem
ENGLISH = "english"
ABROAD = ("german", "french", "spanish", "italian", "portuguese", "dutch")
_ENDINGS = {
    "ly": 4,
    "li": 4,
    "ing": 4,
    "e": 4,
    "ment": 5,
    "ness": 5,
    "ans": 5,
    "ens": 5,
    "ist": 5,
    "ion": 5,
    "ur": 5,
    "ag": 5,
    "th": 5,
    "er": 5,
    "or": 5,
    "al": 5,
    "ee": 5,
    "ed": 5,
    "iti": 5,
    "i": 6,
    "y": 6,
}  # and how long what stays must be


class Known(NamedTuple):
    """A word as far as it is known."""

    stem: str
    root: str = ""  # what it has in common with words made of it; "" for what has none
    groups: frozenset[int] = frozenset()  # lines of synonyms
    sides: frozenset[tuple[int, int]] = (
        frozenset()
    )  # (line, side) of contrasts; below 0 where nothing is between the sides

    def excludes(self, other: "Known") -> bool:
        """Whether a fact has the one or the other: there is a line with both, on two of its
        sides."""
        if not self.sides or not other.sides:
            return False
        lines = dict(self.sides)
        return any(lines.get(line, side) != side for line, side in other.sides)


def complements(one: Known, other: Known) -> bool:
    """Whether what is not the one is the other, as with open and closed."""
    lines = dict(one.sides)
    return any(line < 0 and lines.get(line, side) != side for line, side in other.sides)


class _Stemmers(threading.local):
    """A stemmer serves one thread."""

    def __init__(self) -> None:
        self.of: dict[str, Stems] = {}


_stemmers = _Stemmers()
PHRASES = phrases(FORMS.verbs)


def stem_of(word: str, language: str) -> str:
    """The stem of a word in lower case."""
    if len(word) > LONGEST:
        return word
    stems = _stemmers.of.get(language) or _stemmers.of.setdefault(language, Stems(language))
    return stems.stem(FORMS.base.get(word, word) if language == ENGLISH else word)


def stems_of(words: Iterable[str]) -> frozenset[str]:
    """Those of several English words."""
    return frozenset(stem_of(word, ENGLISH) for word in words)


@cache
def _groups() -> dict[tuple[str, str], frozenset[int]]:
    """Of each language and stem the lines of synonyms that it is in."""
    found: dict[tuple[str, str], set[int]] = {}
    language = ENGLISH
    for number, line in enumerate(lines("synonyms")):
        if line.startswith("="):
            language = line[1:].strip()
        else:
            for word in line.split():
                found.setdefault((language, stem_of(word, language)), set()).add(number)
    return {key: frozenset(numbers) for key, numbers in found.items()}


@cache
def _sides() -> dict[str, frozenset[tuple[int, int]]]:
    """Of each stem the lines of contrasts that it is in, each with its side."""
    found: dict[str, set[tuple[int, int]]] = {}
    for number, line in enumerate(lines("contrasts")):
        number = -1 - number if line.startswith("!") else number
        for side, words in enumerate(line.lstrip("! ").split("|")):
            for word in words.split():
                found.setdefault(stem_of(word, ENGLISH), set()).add((number, side))
    return {stem: frozenset(sides) for stem, sides in found.items()}


@lru_cache(8192)
def known(word: str, language: str = ENGLISH) -> Known:
    """What is known of a word in lower case, in a text of that language; of every form of it the
    same."""
    groups = _groups()
    stems = {language, ENGLISH, *ABROAD}
    found = frozenset[int]().union(*(groups.get((one, stem_of(word, one)), ()) for one in stems))
    english = stem_of(word, ENGLISH)
    return Known(stem_of(word, language), _root(english), found, _sides().get(english, frozenset()))


def _root(stem: str) -> str:
    """In American spelling: employ of employee, lisens of licence."""
    if len(stem) < 5:
        return stem
    plain = stem.replace("our", "or").replace("is", "iz").replace("c", "s")
    plain = plain[0] + "".join(two for one, two in pairwise(plain) if one != two)
    return next(
        (
            plain.removesuffix(end)
            for end, least in _ENDINGS.items()
            if plain.endswith(end) and len(plain) - len(end) >= least
        ),
        plain,
    )

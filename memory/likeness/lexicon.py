"""The words that are known: which stand for one another, which exclude one another, and what an irregular form is a form of.

The lists are English first, with a few words of other languages; memory/likeness/words/ has them, and says of each how to read it.
"""
import threading
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple

from memory.recall.stems import Stems

LONGEST = 40   # letters of a word that has a stem


class Known(NamedTuple):
    """A word as far as it is known."""

    stem: str
    groups: frozenset[int] = frozenset()                # lines of synonyms
    sides: frozenset[tuple[int, int]] = frozenset()     # (line, side) of contrasts

    def means(self, other: "Known") -> bool:
        """Whether one may stand for the other."""
        return not self.groups.isdisjoint(other.groups)

    def excludes(self, other: "Known") -> bool:
        """Whether a fact has one or the other, and neither line nor side makes them one."""
        lines = dict(self.sides)
        return any(lines.get(line, side) != side for line, side in other.sides)


class _Stemmers(threading.local):
    """A stemmer serves one thread."""

    def __init__(self) -> None:
        self.of: dict[str, Stems] = {}


def _lines(name: str) -> Iterator[str]:
    text = files(__package__).joinpath("words", f"{name}.txt").read_text("utf-8")
    return (line for line in text.splitlines() if line and not line.startswith("#"))


class Forms(NamedTuple):
    """Irregular words."""

    base: dict[str, str]      # of each form
    past: frozenset[str]      # forms that are of the past, or a participle
    finite: frozenset[str]    # of the past, and no participle
    timeless: frozenset[str]  # verbs whose past is as their present


def _irregular() -> Forms:
    rows = [line.split() for line in _lines("irregular")]
    verbs = [row for row in rows if row[0] != "+" and len(row) > 1]
    base = {form: row[0] for row in verbs for form in row[1:]} | {form: row[1] for row in rows if row[0] == "+" for form in row[2:]}
    timeless = frozenset(row[0] for row in verbs if row[1] == row[0])
    past = frozenset(row[1] for row in verbs) - timeless
    return Forms(base, past, frozenset(row[1] for row in verbs if len(row) > 2 and row[2] != row[1]), timeless)


def _phrases() -> dict[str, list[tuple[list[str], list[str]]]]:
    """By their first word, the longest first: the words, and what is read instead."""
    found: dict[str, list[tuple[list[str], list[str]]]] = {}
    for line in sorted(_lines("phrases"), key=len, reverse=True):
        words, _, instead = line.partition("=")
        found.setdefault(words.split()[0], []).append((words.split(), instead.split()))
    return found


_stemmers = _Stemmers()
FORMS = _irregular()
PHRASES = _phrases()


def stem_of(word: str, language: str) -> str:
    """The stem of a word in lower case."""
    if len(word) > LONGEST:
        return word
    stems = _stemmers.of.get(language) or _stemmers.of.setdefault(language, Stems(language))
    return stems.stem(FORMS.base.get(word, word) if language == "english" else word)


@cache
def _groups(language: str) -> dict[str, frozenset[int]]:
    """Of each stem the lines of synonyms that it is in."""
    found: dict[str, set[int]] = {}
    for number, line in enumerate(_lines("synonyms")):
        for word in line.split():
            found.setdefault(stem_of(word, language), set()).add(number)
    return {stem: frozenset(numbers) for stem, numbers in found.items()}


@cache
def _sides(language: str) -> dict[str, frozenset[tuple[int, int]]]:
    """Of each stem the lines of contrasts that it is in, each with its side."""
    found: dict[str, set[tuple[int, int]]] = {}
    for number, line in enumerate(_lines("contrasts")):
        for side, words in enumerate(line.split("|")):
            for word in words.split():
                found.setdefault(stem_of(word, language), set()).add((number, side))
    return {stem: frozenset(sides) for stem, sides in found.items()}


@lru_cache(8192)
def known(word: str, language: str = "english") -> Known:
    """What is known of a word in lower case; of every form of it the same."""
    stem = stem_of(word, language)
    return Known(stem, _groups(language).get(stem, frozenset()), _sides(language).get(stem, frozenset()))


@lru_cache(8192)
def root(stem: str) -> str:
    """What a word has in common with those made of it, in American spelling: employ of employee, lisens of licence."""
    if len(stem) < 5:
        return stem
    plain = stem.replace("our", "or").replace("is", "iz").replace("c", "s")
    plain = plain[0] + "".join(two for one, two in pairwise(plain) if one != two)
    ending = next((end for end in _ENDINGS if plain.endswith(end) and len(plain) - len(end) > 3), "") if len(stem) > 5 else ""
    return plain.removesuffix(ending)


_ENDINGS = ("ment", "anse", "ense", "ist", "ion", "er", "or", "al", "ly", "ee", "ing", "ed", "e", "i", "y", "s")

"""The nearness of words by meaning, from a table: 384 bits for each piece of the vocabulary.

A second table has the nearest words of each word, with another stem: `pet` for `dog`.
The bits are the signs of the built-in model's output for a piece alone, minus the mean of all
pieces. Two words are as near as they have bits in common. No model runs. The table has 1.5 MB;
benchmarks/recall/word_signs.py creates it.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.search.embedding.wordpiece import pieces, words

BITS, NUMBERS = 384, 6  # of a piece; in numbers of 64 bits
MOST_NEIGHBORS = 5  # of a word in the table of neighbors
KEPT = 8192  # texts whose words are cached: questions of one topic hit the same texts
OTHERS = 2**31 - 1  # mask for the negative numbers of words that the table lacks
PLAIN = re.compile(r"[a-z0-9]+")  # the words of an ASCII text in lower case
ENDINGS = ("s", "es", "ed", "ing", "er", "ly")
Floats = NDArray[np.float32]
# A number for each word: equal for equal words, negative for words that the table lacks.
Words = NDArray[np.int32]


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without accents and signs."""
    return (
        PLAIN.findall(text.lower())
        if text.isascii()
        else [word for word in words(text) if word.isalnum()]
    )


class NearWords:
    """The table and its words. Loading takes 10 ms."""

    def __init__(self) -> None:
        table = files("memrelay.memory.search.embedding").joinpath("word_signs.bin").read_bytes()
        neighbors = (
            files("memrelay.memory.search.embedding").joinpath("word_neighbors.bin").read_bytes()
        )
        self._neighbors = np.frombuffer(neighbors, "<u2").reshape(-1, MOST_NEIGHBORS)
        self._signs = np.frombuffer(table, "<u8").reshape(-1, NUMBERS)
        self._pieces = pieces()
        whole_words = ((at, piece) for at, piece in enumerate(self._pieces) if piece.isalnum())
        self._known = {piece: number for number, piece in whole_words}
        self.read = lru_cache(KEPT)(self._read)  # text -> words, cached

    def has(self, word: str) -> bool:
        """Return whether the table has the word in this form."""
        return word in self._known

    def known(self, some: Iterable[str]) -> list[str]:
        """Return the words that the table has, or whose base form it has, common words first."""
        places = {
            word: min(filter(None, map(self._known.get, _base_forms(word))), default=None)
            if word.endswith(ENDINGS)
            else self._known.get(word)
            for word in some
        }
        return sorted((word for word in places if places[word]), key=lambda word: places[word] or 0)

    def neighbors(self, word: str) -> list[str]:
        """Return the words that mean nearly the same, the nearest first; none for most words."""
        number = self._known.get(word)
        if number is None:
            return []
        return [self._pieces[near] for near in self._neighbors[number].tolist() if near]

    def numbers(self, some: Collection[str]) -> Words:
        """Return the numbers of words."""
        found = list(map(self._known.get, some))
        if None in found:
            found = [
                ~(hash(word) & OTHERS) if number is None else number
                for word, number in zip(some, found, strict=True)
            ]
        return np.array(found, np.int32)

    def nearness(self, ones: Words, others: Words) -> Floats:
        """Return a row for each of `ones` and a column for each of `others`, from 0 to 1.

        0 means nothing in common, and 1 the same word. A word that the table lacks is near only
        to itself.
        """
        near: Floats = (ones[:, None] == others).astype(np.float32)
        mine, theirs = np.flatnonzero(ones >= 0), np.flatnonzero(others >= 0)
        near[np.ix_(mine, theirs)] = self._near(ones[mine], others[theirs])
        return near

    def _read(self, text: str) -> Words:
        return self.numbers(words_of(text))

    def _near(self, ones: Words, others: Words) -> Floats:
        apart = np.zeros((len(ones), len(others)), np.uint16)
        for mine, theirs in zip(self._signs[ones].T, self._signs[others].T, strict=True):
            apart += np.bitwise_count(mine[:, None] ^ theirs)
        near: Floats = np.maximum(np.float32(1) - apart / np.float32(BITS / 2), np.float32(0))
        return near


def _base_forms(word: str) -> Iterator[str]:
    """Yield the word, and what may be its base form: `nap` for `naps`, `bake` for `baking`."""
    yield word
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 2:
            base = word.removesuffix(ending)
            yield base
            yield base + "e"


@lru_cache(maxsize=1)
def near_words() -> NearWords:
    """Return the table of this process, loaded at first use."""
    return NearWords()

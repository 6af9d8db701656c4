"""How near words are in meaning, by a table: for each piece of the built-in model's vocabulary 384
bits, 1.5 MB in all.

A piece's bits are the signs of what the model says of it where it stands alone, less the mean of
all pieces; two words are as
near as they have bits in common. No model is run for it. benchmarks/recall/word_signs.py makes the
table.
"""

import re
from collections.abc import Collection
from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.embedding.wordpiece import pieces, words

BITS, NUMBERS = 384, 6  # of a piece; numbers of 64 bits
KEPT = 8192  # texts whose words are known: who asks about something asks again
OTHERS = 2**31 - 1  # numbers below zero, for words that the table lacks
PLAIN = re.compile(r"[a-z0-9]+")  # the words of a text that has nothing but ASCII, in small letters
Floats = NDArray[np.float32]
Words = NDArray[
    np.int32
]  # a number for each word, the same for the same; below zero for what is none of the table


def words_of(text: str) -> list[str]:
    """The words of a text, in small letters and without accents; no signs."""
    return (
        PLAIN.findall(text.lower())
        if text.isascii()
        else [word for word in words(text) if word.isalnum()]
    )


class NearWords:
    """The table, and the words that it has."""

    def __init__(self) -> None:
        """Reads both: 10 ms."""
        table = files("memrelay.memory.embedding").joinpath("word_signs.bin").read_bytes()
        self._signs = np.frombuffer(table, "<u8").reshape(-1, NUMBERS)
        self._known = {
            piece: number for number, piece in enumerate(pieces()) if piece.isalnum()
        }  # whole words alone
        self.read = lru_cache(KEPT)(self._read)  # the words of a text

    def numbers(self, some: Collection[str]) -> Words:
        """Of each word."""
        found = list(map(self._known.get, some))
        if None in found:
            found = [
                ~(hash(word) & OTHERS) if number is None else number
                for word, number in zip(some, found, strict=True)
            ]
        return np.array(found, np.int32)

    def _read(self, text: str) -> Words:
        return self.numbers(words_of(text))

    def nearness(self, ones: Words, others: Words) -> Floats:
        """A row for each of `ones` and a column for each of `others`: from 0, for what has nothing
        in common, to 1, for the
        same word. What is no word of the table is near to itself alone.
        """
        near: Floats = (ones[:, None] == others).astype(np.float32)
        mine, theirs = np.flatnonzero(ones >= 0), np.flatnonzero(others >= 0)
        near[np.ix_(mine, theirs)] = self._near(ones[mine], others[theirs])
        return near

    def _near(self, ones: Words, others: Words) -> Floats:
        apart = np.zeros((len(ones), len(others)), np.uint16)
        for mine, theirs in zip(self._signs[ones].T, self._signs[others].T, strict=True):
            apart += np.bitwise_count(mine[:, None] ^ theirs)
        near: Floats = np.maximum(np.float32(1) - apart / np.float32(BITS / 2), np.float32(0))
        return near


@lru_cache(maxsize=1)
def near_words() -> NearWords:
    """The one of this process; read when it is wanted for the first time."""
    return NearWords()

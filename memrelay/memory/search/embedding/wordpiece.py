"""WordPiece tokenization, as in BERT's uncased models: a text to the numbers of its pieces.

The rules are those of the `tokenizers` library, and a test compares both. Unlike there, a text
that spells a special token such as "[CLS]" is plain text.
"""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from itertools import chain, islice

LONGEST_WORD = 100  # characters; a longer word is unknown
MOST_CHARACTERS = 1 << 15  # of a text; the rest is ignored
CONTROLS = ("Cc", "Cf", "Co", "Cs")
IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class _Cleaned(dict[int, str]):
    """For str.translate: removes controls, unifies spaces, makes each ideograph a word."""

    def __missing__(self, code: int) -> str:
        self[code] = cleaned = _clean(chr(code))
        return cleaned


class _Folded(dict[int, str]):
    """For str.translate after decomposition: removes accents and case, makes each sign a word."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _fold(chr(code))
        return folded


def _clean(char: str) -> str:
    category = unicodedata.category(char)
    if char in "\t\n\r" or (char.isspace() and category != "Cc"):
        return " "
    if char == "\ufffd" or category in CONTROLS:
        return ""
    return f" {char} " if any(first <= ord(char) <= last for first, last in IDEOGRAPHS) else char


def _fold(char: str) -> str:
    category = unicodedata.category(char)
    if category == "Mn":
        return ""
    is_sign = category[0] == "P" or (char.isascii() and not char.isalnum())
    return f" {char} " if is_sign else char.lower()


CLEANED, FOLDED = _Cleaned(), _Folded()


def words(text: str) -> list[str]:
    """Return the words and signs of a text, in lower case and without accents."""
    cleaned = text[:MOST_CHARACTERS].translate(CLEANED)
    return unicodedata.normalize("NFD", cleaned).translate(FOLDED).split()


def pieces() -> list[str]:
    """Return the vocabulary of 30,522 pieces. The number of a piece is its index."""
    return (
        files("memrelay.memory.search.embedding")
        .joinpath("vocab.txt")
        .read_text(encoding="utf-8")
        .split("\n")[:-1]
    )


class WordPiece:
    """Encodes texts with the vocabulary in this folder."""

    def __init__(self) -> None:
        self._numbers = {piece: number for number, piece in enumerate(pieces())}
        self._unknown, self._begin, self._end = [
            self._numbers[name] for name in ("[UNK]", "[CLS]", "[SEP]")
        ]
        # cached by word, since most words of a store repeat
        self._pieces = lru_cache(maxsize=1 << 14)(self._split)

    def encode(self, text: str, most: int) -> list[int]:
        """Return at most `most` numbers of pieces, between those of [CLS] and [SEP]."""
        pieces = chain.from_iterable(map(self._pieces, words(text)))
        return [self._begin, *islice(pieces, most - 2), self._end]

    def is_mostly_unknown(self, text: str) -> bool:
        """Return whether unknown words make up most of the text's characters.

        The vector of such a text would hardly differ from others.
        """
        found = words(text)
        unknown = sum(len(word) for word in found if self._pieces(word) == (self._unknown,))
        return unknown * 2 > sum(map(len, found))

    def _split(self, word: str) -> tuple[int, ...]:
        """Split a word into the longest known pieces from its start; unknown if any is missing."""
        if len(word) > LONGEST_WORD:
            return (self._unknown,)
        found = tuple(self._greedy(word))
        return found if all(number >= 0 for number in found) else (self._unknown,)

    def _greedy(self, word: str) -> Iterator[int]:
        at = 0
        while at < len(word):
            begins = "##" if at else ""
            ends = (
                end for end in range(len(word), at, -1) if begins + word[at:end] in self._numbers
            )
            end = next(ends, 0)
            yield self._numbers[begins + word[at:end]] if end else -1
            at = end or len(word)

"""WordPiece, as BERT's uncased models have it: from a text to the numbers of its pieces in the
vocabulary.

The rules are those of the `tokenizers` library, to which a test holds them; but a text that spells
a token of the model's own,
like "[CLS]", is text.
"""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from itertools import chain, islice

LONGEST_WORD = 100  # characters; a longer one is unknown
MOST_CHARACTERS = 1 << 15  # of a text; what lies beyond is not looked at
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
    """For str.translate: without controls, every space alike, each ideograph a word."""

    def __missing__(self, code: int) -> str:
        self[code] = cleaned = _clean(chr(code))
        return cleaned


class _Folded(dict[int, str]):
    """For str.translate after decomposition: without accents, in lower case, each sign a word."""

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
    """The words and signs of a text, in lower case and without accents."""
    cleaned = text[:MOST_CHARACTERS].translate(CLEANED)
    return unicodedata.normalize("NFD", cleaned).translate(FOLDED).split()


def pieces() -> list[str]:
    """The vocabulary: 30,522 pieces, the number of each being its line."""
    return (
        files("memrelay.memory.embedding")
        .joinpath("vocab.txt")
        .read_text(encoding="utf-8")
        .split("\n")[:-1]
    )


class WordPiece:
    """The vocabulary that lies beside this file."""

    def __init__(self) -> None:
        """Reads it."""
        self._numbers = {piece: number for number, piece in enumerate(pieces())}
        self._unknown, self._begin, self._end = [
            self._numbers[name] for name in ("[UNK]", "[CLS]", "[SEP]")
        ]
        self._pieces = lru_cache(maxsize=1 << 14)(
            self._split
        )  # of a word; most words of a store come again

    def encode(self, text: str, most: int) -> list[int]:
        """The numbers of the pieces, between those of [CLS] and [SEP]; `most` in all, and the
        text's end is cut off."""
        pieces = chain.from_iterable(map(self._pieces, words(text)))
        return [self._begin, *islice(pieces, most - 2), self._end]

    def strange(self, text: str) -> bool:
        """Whether most of a text, by characters, is words that are unknown as a whole, so that
        little tells it from others."""
        found = words(text)
        unknown = sum(len(word) for word in found if self._pieces(word) == (self._unknown,))
        return unknown * 2 > sum(map(len, found))

    def _split(self, word: str) -> tuple[int, ...]:
        """The longest piece that the word begins with, then of the rest, to its end; or unknown as
        a whole."""
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

"""Search in facts: their folded texts, and how well a text matches a query.

A query matches a key or a value that has its words in this order, also as parts of words. Blanks,
`_` and `-` are equal, and so are letters that differ in case or accents. A query also matches a
fact that has all of its words as whole words in any order.
"""

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from memrelay.memory.text.folding import folded, normal
from memrelay.memory.text.words import in_letters, parts_of, tokens

# Between the key and the value in the text of a fact. No key has it.
BETWEEN = "\x1f"
# How a text matches: the rank of an order "key before value", 0 for whole words, -1 for no match.
IN_KEY, IN_VALUE, IN_WORDS, NO_MATCH = 2, 1, 0, -1
_SEPARATORS = re.compile(r"[\s_-]+")


class FactQuery(NamedTuple):
    """A query in folded letters."""

    # Words between separators, which must follow each other. Empty: nothing matches.
    words: tuple[str, ...]
    # Words of the full-text index, which may have any order.
    tokens: tuple[str, ...]

    @property
    def required(self) -> tuple[str, ...]:
        """The texts that every match contains, the longest first."""
        whole = "\0".join(self.words)
        within = {token for token in self.tokens if token in whole} or set(self.words)
        return tuple(sorted(within, key=lambda text: (-len(text), text)))


@lru_cache(256)
def parse_fact_query(query: str) -> FactQuery:
    """Return the words of a query. It has no syntax."""
    text = fold(query)
    words = tuple(word for word in _SEPARATORS.split(text) if word)
    return FactQuery(words, tuple(dict.fromkeys(tokens(text))) if words else ())


def fold(text: str) -> str:
    """Return a text in small letters without accents."""
    if text.isascii():
        return text.lower()
    apart = normal("NFD", folded(text).lower())
    return "".join(char for char in apart if unicodedata.category(char) != "Mn")


def folded_text(key: str, value: str) -> str | None:
    """Return the text of a fact as `data.folded` has it, None if SQLite computes it: for ASCII."""
    return None if key.isascii() and value.isascii() else fold(key) + BETWEEN + fold(value)


def rank(text: str, content: str, query: str) -> int:
    """Return how the folded text and the content of a fact match a query."""
    wanted = parse_fact_query(query)
    key, _, value = text.partition(BETWEEN)
    if has_in_order(key, wanted.words):
        return IN_KEY
    if has_in_order(value, wanted.words):
        return IN_VALUE
    return IN_WORDS if _has_whole_words(text, content, wanted.tokens) else NO_MATCH


def has_in_order(text: str, words: tuple[str, ...]) -> bool:
    """Return whether a text contains the words one after the other."""
    at = 0
    for word in words:
        found = text.find(word, at)
        if found < 0:
            return False
        at = found + len(word)
    return bool(words)


def _has_whole_words(text: str, content: str, wanted: tuple[str, ...]) -> bool:
    """Return whether the text has all of these words, or has them as parts of words."""
    if not wanted:
        return False
    present = set(tokens(text))
    missing = [word for word in wanted if word not in present]
    # Languages without blanks: every letter is a word.
    missing = [word for word in missing if not (in_letters(word) and word in text)]
    if not missing:
        return True
    parts = set(tokens(fold(parts_of(content) or "")))
    return all(word in parts for word in missing)

"""Search in facts: their folded texts, and how well a text matches a query.

A query matches a key or a value that has its words in this order, also as parts of words. Blanks,
`_` and `-` are equal, and so are letters that differ in case or accents. A query also matches a
fact that has all of its words as whole words in any order.
"""

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from memrelay.memory.search.text.folding import folded, normal
from memrelay.memory.search.text.words import in_letters, tokens

# Between the key and the value in the text of a fact. No key has it.
BETWEEN = "\x1f"
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

    @property
    def pattern_in_key(self) -> str:
        """The pattern of LIKE for texts that have the words in order in their key."""
        return f"%{self._pattern}%{BETWEEN}%"

    @property
    def pattern_in_value(self) -> str:
        """The pattern of LIKE for texts that have the words in order in their value."""
        return f"%{BETWEEN}%{self._pattern}%"

    @property
    def _pattern(self) -> str:
        return "%".join(re.sub("[%_!]", r"!\g<0>", word) for word in self.words)


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


def has_whole_words(text: str, parts: str | None, query: str) -> bool:
    """Return whether a fact has all words of a query as whole words.

    `parts` are the parts of words of its record, such as those of an identifier in camel case.
    """
    wanted = parse_fact_query(query).tokens
    present = tokens(text)
    missing = [word for word in wanted if word not in present]
    if missing:
        # In languages without blanks, every letter is a word.
        missing = [word for word in missing if not (in_letters(word) and word in text)]
    if missing and parts:
        in_parts = tokens(fold(parts))
        missing = [word for word in missing if word not in in_parts]
    return bool(wanted) and not missing

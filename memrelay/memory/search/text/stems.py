"""Stems: a query word matches all words with the same stem.

Stems apply when a query is parsed. The index has the words unchanged.
"""

from collections.abc import Container
from typing import Protocol

import Stemmer

from memrelay.memory.search.text.folding import folded, is_hidden, shown
from memrelay.memory.search.text.irregular import FORMS

# Maximum number of words compared for one stem.
MAX_WORDS = 4096
VOWELS = "aeiouy"
# Languages with known irregular words.
IRREGULAR = ("english", "porter")


class Words(Protocol):
    """The words of a store (engine/vocabulary.py)."""

    def beginning(self, prefix: str, most: int) -> dict[str, int]:
        """Return up to `most` words that begin with a prefix, with their number of records."""

    def count(self, word: str) -> int:
        """Return the number of records that have a word."""


def is_word(word: str) -> bool:
    """Return whether an indexed word has a stem: only letters and their marks."""
    return word.isalpha() or (is_hidden(word) and not any(map(str.isdecimal, word)))


class Stems:
    """Stems of one of the languages in memrelay/memory/search/text/languages.py, for one thread.

    "none" leaves words unchanged.
    """

    def __init__(self, language: str) -> None:
        self._stemmer = None if language == "none" else Stemmer.Stemmer(language)
        self.is_english = language in IRREGULAR
        self._base = FORMS.base if self.is_english else {}
        # By stem: an irregular base word, followed by its forms.
        self._families: dict[str, list[str]] = {}
        for form, base in self._base.items():
            self._families.setdefault(self.stem(base), [base]).append(form)

    def stem(self, word: str) -> str:
        """Return the stem of an indexed word, which is in lower case and without accents.

        Words with digits stay unchanged.
        """
        return (
            word
            if self._stemmer is None or not is_word(word)
            else folded(self._stemmer.stemWord(shown(word)))
        )

    def root(self, word: str) -> str:
        """Return the stem of the base word: `go` for `went`, `going` and `go`."""
        return self.stem(self._base.get(word, word))

    def spellings(self, word: str, vocabulary: Words) -> dict[str, int]:
        """Return the store's words with the stem of `word`, including itself, with their number of
        records.

        It searches the first 4,096 words that begin with the stem. A final vowel of a stem of 3
        letters or more is ignored.
        """
        stem = self.stem(word)
        # `go` is the stem of `going`.
        prefix = stem[:-1] if stem[-1:] in VOWELS and len(stem) > 2 else stem
        found: dict[str, int] = {}
        if self._stemmer is not None and len(prefix) > 1 and is_word(word):
            words = vocabulary.beginning(prefix, MAX_WORDS)
            stems = self._stemmer.stemWords(list(map(shown, words)))
            found = {
                one: words[one]
                for one, word_stem in zip(words, stems, strict=True)
                if folded(word_stem) == stem
            }
        if word not in found and (count := vocabulary.count(word)):
            found[word] = count
        return found

    def kin(self, word: str, same: Container[str], vocabulary: Words) -> dict[str, int]:
        """Return the other forms of the same irregular word, with their number of records.

        `bought` is such a form of `buying`. `same` are the spellings of `word`, which are left out.
        """
        base, *forms = self._families.get(self.root(word)) or [word]
        if not forms:
            return {}
        found = self.spellings(base, vocabulary) | {
            form: count for form in forms if (count := vocabulary.count(form))
        }
        return {one: count for one, count in found.items() if one not in same}

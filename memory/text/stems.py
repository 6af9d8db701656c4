"""Stems: words of one stem are found for each other. Made when a query is read: the index has the
words as they are."""

from collections.abc import Container
from typing import TYPE_CHECKING

import Stemmer

from memrelay.memory.dedup.irregular import FORMS
from memrelay.memory.text.folding import folded, is_hidden, shown

if TYPE_CHECKING:  # numpy, which telling two facts apart by their stems does not need
    from memrelay.memory.sqlite.vocabulary import Vocabulary

MOST_WORDS = 4096  # that are looked at for those of one stem
VOWELS = "aeiouy"
IRREGULAR = ("english", "porter")  # languages whose irregular words are known


def is_word(word: str) -> bool:
    """Whether a word of the index has stems: letters alone, and the marks on them."""
    return word.isalpha() or (is_hidden(word) and not any(map(str.isdecimal, word)))


class Stems:
    """Stems of one language; for one thread. "none" leaves words as they are."""

    def __init__(self, language: str) -> None:
        """One of memory/text/languages.py."""
        self._stemmer = None if language == "none" else Stemmer.Stemmer(language)
        self._base = FORMS.base if language in IRREGULAR else {}
        self._families: dict[str, list[str]] = {}  # by stem: an irregular word, then its forms
        for form, base in self._base.items():
            self._families.setdefault(self.stem(base), [base]).append(form)

    def stem(self, word: str) -> str:
        """The stem of a word of the index, which is in lower case and without accents. What has a
        digit is no word."""
        return (
            word
            if self._stemmer is None or not is_word(word)
            else folded(self._stemmer.stemWord(shown(word)))
        )

    def root(self, word: str) -> str:
        """The stem of what a word is a form of: `go` for `went`, `going` and `go`."""
        return self.stem(self._base.get(word, word))

    def spellings(self, word: str, vocabulary: "Vocabulary") -> dict[str, int]:
        """The store's words that have the stem of `word`, itself among them, each with the number
        of its records.

        They are looked for among the first 4,096 that begin with the stem, without the vowel that a
        longer one may end in.
        """
        stem = self.stem(word)
        prefix = (
            stem[:-1] if stem[-1:] in VOWELS and len(stem) > 2 else stem
        )  # `go` is the stem of `going`
        found: dict[str, int] = {}
        if self._stemmer is not None and len(prefix) > 1 and is_word(word):
            words = vocabulary.beginning(prefix, MOST_WORDS)
            stems = self._stemmer.stemWords(list(map(shown, words)))
            found = {
                one: words[one]
                for one, its in zip(words, stems, strict=True)
                if folded(its) == stem
            }
        if word not in found and (count := vocabulary.count(word)):
            found[word] = count
        return found

    def kin(self, word: str, same: Container[str], vocabulary: "Vocabulary") -> dict[str, int]:
        """The store's words that are forms of the same irregular word and not among the `same`,
        which are the spellings of
        `word`, as `bought` is to `buying`: each with the number of its records.
        """
        base, *forms = self._families.get(self.root(word)) or [word]
        if not forms:
            return {}
        found = self.spellings(base, vocabulary) | {
            form: count for form in forms if (count := vocabulary.count(form))
        }
        return {one: count for one, count in found.items() if one not in same}

"""Corrects misspelled words: the nearest word of a store, one edit away or two in the second half.

The cost is bounded: some hundred words are looked up, and at most 4,096 with the same beginning
are compared.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np

from memrelay.memory.embedding.near_words import near_words
from memrelay.memory.search.results import SearchContext
from memrelay.memory.search.terms import MAX_COUNTED, Term, hide_expired, make_term
from memrelay.memory.sqlite.row_arrays import Rows
from memrelay.memory.sqlite.vocabulary import Vocabulary
from memrelay.memory.text.stems import Stems, is_word
from memrelay.memory.text.stopwords import STOP_WORDS
from memrelay.memory.text.words import in_letters

SHORTEST, LONGEST = 3, 32  # characters of a word that gets a suggestion
FOR_TWO = 5  # characters from which on two edits are allowed
MAX_ALIKE = 4096  # words with the same beginning that are compared
NEIGHBORHOOD = 64  # code points of a script around a letter
MAX_CHECKED = 16  # words whose postings are checked for records that are not expired
SHORTEST_CORRECTED = 4  # characters of a word that is corrected
MAX_CORRECTIONS = 8  # of a query; a correction takes 5 ms


def correct_terms(
    terms: Collection[Term],
    context: SearchContext,
    stems: Stems,
    language: str,
    *,
    understood: Collection[str] = (),
) -> list[Term]:
    """Replace words that no record holds by the nearest word. Misspelled stop words are left out.

    Words that the language model knows are correct as they are, and so are names of speakers and
    words in `understood`.
    """
    corrected: list[Term] = []
    left = MAX_CORRECTIONS
    for term in terms:
        if left and _may_be_misspelled(term, context, understood):
            left -= 1
            word = _correct(term.text, context, stems)
            if word in STOP_WORDS.get(language, ()):
                continue
            if word:
                found = make_term(word, stems, context.vocabulary)
                term = replace(hide_expired(found, context), text=term.text, corrected=word)
        corrected.append(term)
    return corrected


def _may_be_misspelled(term: Term, context: SearchContext, understood: Collection[str]) -> bool:
    word = term.text
    return (
        not term.records
        and term.found is None
        and SHORTEST_CORRECTED <= len(word) <= LONGEST
        and is_word(word)
        and not in_letters(word)
        and word not in understood
        and not near_words().known((word,))
        and not context.layout.names.first_words((word,))
    )


def _correct(word: str, context: SearchContext, stems: Stems) -> str:
    """Return the word that is one edit away and whose stem most records hold; "" without one."""
    edits = set(_one_edit(word)) - {word}
    if names := context.layout.names.first_words(edits):
        return min(names)
    counts = dict(context.vocabulary.among(edits))
    for known in near_words().known(edits):
        counts[known] = sum(stems.spellings(known, context.vocabulary).values())
    best = max(counts, key=lambda one: (counts[one], one), default="")
    if counts.get(best):
        return best
    return nearest_word(word, context.vocabulary, context.expired) or ""


def nearest_word(word: str, vocabulary: Vocabulary, expired: Rows) -> str | None:
    """Return the word with the fewest edits, then the one that most records hold.

    An edit inserts, deletes or replaces a letter, or swaps two. Words that only expired records
    hold are never returned. Returns None if no word is near.
    """
    if not SHORTEST <= len(word) <= LONGEST or in_letters(word):
        return None
    near = vocabulary.among(set(_one_edit(word)) - {word})
    if not near and len(word) >= FOR_TWO:
        alike = vocabulary.beginning(word[: len(word) // 2], MAX_ALIKE)
        near = {
            one: count for one, count in alike.items() if one != word and _within_two(word, one)
        }
    return next(_without_expired(near, vocabulary, expired), None)


def _without_expired(
    near: Mapping[str, int], vocabulary: Vocabulary, expired: Rows
) -> Iterator[str]:
    """Yield the words that a record holds which is not expired, the most frequent first."""
    looked = 0
    for one in sorted(near, key=lambda one: (-near[one], one)):
        if near[one] > MAX_COUNTED * len(expired):
            yield one
        elif looked < MAX_CHECKED:
            looked += 1
            if np.isin(vocabulary.postings(one).rows, expired, invert=True).any():
                yield one


def _one_edit(word: str) -> Iterator[str]:
    """Yield every word that is one edit away, using letters near those of the word."""
    blocks = {ord(char) // NEIGHBORHOOD for char in word}
    letters = [
        char
        for block in blocks
        for char in map(chr, range(block * NEIGHBORHOOD, (block + 1) * NEIGHBORHOOD))
        if char.isalnum() and not char.isupper()
    ]
    for at in range(len(word) + 1):
        before, after = word[:at], word[at:]
        yield before + after[1:]
        yield before + after[1:2] + after[:1] + after[2:]
        for letter in letters:
            yield before + letter + after
            yield before + letter + after[1:]


def _within_two(one: str, other: str) -> bool:
    """Return whether at most two edits turn one word into the other."""
    # fast rejection by length and by the letters that only one of them has
    if abs(len(one) - len(other)) > 2 or len(set(one) ^ set(other)) > 4:
        return False
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, char in enumerate(one, 1):
        earlier, before, row = before, row, [at]
        for to, letter in enumerate(other, 1):
            cost = min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (char != letter))
            if at > 1 and to > 1 and char == other[to - 2] and one[at - 2] == letter:
                cost = min(cost, earlier[to - 2] + 1)
            row.append(cost)
    return row[-1] <= 2

"""The word of a store that is nearest_words to one that it does not have: one edit away anywhere, or two
in the second half.

Bounded whatever the store holds: some hundred words are asked for by name, and at most 4,096 that
begin alike are compared.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from memrelay.memory.search.terms import MOST_COUNTED
from memrelay.memory.sqlite.rows import Rows
from memrelay.memory.sqlite.vocabulary import Vocabulary
from memrelay.memory.text.words import in_letters

SHORTEST, LONGEST = 3, 32  # characters of a word that is worth a suggestion
FOR_TWO = 5  # from so many characters on, two edits are a slip as well
MOST_ALIKE = 4096  # words that begin like it and are compared
NEIGHBOURHOOD = 64  # code points of a script around a letter
MOST_LOOKED = 16  # words that may be in expired records alone, of which the records are looked at


def nearest_words(word: str, vocabulary: Vocabulary, expired: Rows) -> str | None:
    """The one with the fewest edits (a letter more, less, another, or two swapped), of these the
    one most records hold. What
    only records hold that have expired, nothing tells of.
    """
    if not SHORTEST <= len(word) <= LONGEST or in_letters(word):
        return None
    near = vocabulary.among(set(_one_edit(word)) - {word})
    if not near and len(word) >= FOR_TWO:
        alike = vocabulary.beginning(word[: len(word) // 2], MOST_ALIKE)
        near = {
            one: count for one, count in alike.items() if one != word and _within_two(word, one)
        }
    return next(_told(near, vocabulary, expired), None)


def _told(near: Mapping[str, int], vocabulary: Vocabulary, expired: Rows) -> Iterator[str]:
    """The best first."""
    looked = 0
    for one in sorted(near, key=lambda one: (-near[one], one)):
        if near[one] > MOST_COUNTED * len(expired):
            yield one
        elif looked < MOST_LOOKED:
            looked += 1
            if np.isin(vocabulary.postings(one).rows, expired, invert=True).any():
                yield one


def _one_edit(word: str) -> Iterator[str]:
    """Every word that is one edit away, in the letters that stand near those of this one in their
    script."""
    blocks = {ord(char) // NEIGHBOURHOOD for char in word}
    letters = [
        char
        for block in blocks
        for char in map(chr, range(block * NEIGHBOURHOOD, (block + 1) * NEIGHBOURHOOD))
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
    """Whether two edits make one of the other; letters that both have are ruled out first, which is
    quick."""
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

"""Corrects misspelled words: the nearest word of a store, one edit away or two in the second half.

The cost is bounded: some hundred words are looked up, and at most 4,096 with the same beginning
are compared.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import islice

import numpy as np

from memrelay.memory.engine.row_arrays import Rows
from memrelay.memory.engine.vocabulary import Vocabulary
from memrelay.memory.search.embedding.near_words import near_words
from memrelay.memory.search.results import SearchContext
from memrelay.memory.search.terms import MAX_COUNTED, Term, hide_expired, make_term
from memrelay.memory.search.text.stems import Stems, is_word
from memrelay.memory.search.text.stopwords import STOP_WORDS
from memrelay.memory.search.text.words import in_letters

SHORTEST, LONGEST = 3, 32  # characters of a word that gets a suggestion
FOR_TWO = 5  # characters from which on two edits are suggested, and more for a correction
MAX_ALIKE = 4096  # words with the same beginning that are compared
NEIGHBORHOOD = 64  # code points of a script around a letter
MAX_CHECKED = 16  # words whose postings are checked for records that are not expired
SHORTEST_CORRECTED = 4  # characters of a word that is corrected
MAX_CORRECTED = 4  # words of a query that are corrected; each takes 3 ms
MAX_NEAR = 3  # words that are searched for instead of one
# The share of the weight of a word for its similar words; none if the word itself is in the table.
CREDIT = 0.5


def correct_terms(
    terms: Collection[Term],
    context: SearchContext,
    stems: Stems,
    language: str,
    *,
    understood: Collection[str] = (),
) -> list[Term]:
    """Add similar words of the store to words that no record holds.

    A word that the built-in model does not know is misspelled: it is replaced, or left out if the
    nearest word is a stop word. Names of speakers and words in `understood` stay as they are.
    """
    corrected: list[Term] = []
    left, stop_words = MAX_CORRECTED, STOP_WORDS.get(language, frozenset())
    for term in terms:
        if not left or term.text in understood or not _is_correctable(term, context):
            corrected.append(term)
            continue
        left -= 1
        if near_words().known((term.text,)):
            edits = set(_one_edit(term.text)) - {term.text}
            similar = _one_edit_away(term.text, edits, context, stems)
            near = [word for word in similar if word not in stop_words][:MAX_NEAR]
            corrected.append(_corrected(term, near, context, stems, misspelled=False))
        else:
            near = _intended(term.text, context, stems)[:MAX_NEAR]
            if not stop_words.intersection(near[:1]):
                corrected.append(_corrected(term, near, context, stems, misspelled=True))
    return corrected


def _is_correctable(term: Term, context: SearchContext) -> bool:
    word = term.text
    return (
        not term.records
        and term.emphasis == 1
        and term.found is None
        and SHORTEST_CORRECTED <= len(word) <= LONGEST
        and is_word(word)
        and not in_letters(word)
        and not context.layout.names.first_words((word,))
    )


def _one_edit_away(
    word: str, edits: Collection[str], context: SearchContext, stems: Stems
) -> list[str]:
    """Return the words among these edits that a record holds in any form, the most frequent
    first.
    """
    counts = _held(word, edits, context.vocabulary)
    for known in near_words().known(edits):
        counts[known] = sum(stems.spellings(known, context.vocabulary).values())
    found = {one: count for one, count in counts.items() if count}
    return list(_without_expired(found, context.vocabulary, context.expired))


def _intended(word: str, context: SearchContext, stems: Stems) -> list[str]:
    """Return what a misspelled word may mean, the most likely first.

    The name of a speaker comes before all other words. Words of the store one edit away come before
    those of the language, and a word of the store two edits away is the last resort.
    """
    edits = set(_one_edit(word)) - {word}
    if names := context.layout.names.first_words(edits):
        return [min(names)]
    if found := _one_edit_away(word, edits, context, stems) or near_words().known(edits):
        return found
    near = _two_edits_away(word, context.vocabulary) if len(word) > FOR_TWO else {}
    return list(islice(_without_expired(near, context.vocabulary, context.expired), 1))


def _corrected(
    term: Term, near: list[str], context: SearchContext, stems: Stems, *, misspelled: bool
) -> Term:
    """Return the term with similar words, which count less for a correct word."""
    if not near:
        return term
    made = [make_term(word, stems, context.vocabulary) for word in near]
    spellings = tuple(dict.fromkeys(one for each in made for one in each.spellings))
    kin = tuple(one for each in made for one in each.kin) if misspelled else spellings
    records = sum(map(context.vocabulary.count, spellings))
    return replace(
        hide_expired(Term(term.text, records, spellings, kin=kin), context),
        near=tuple(near),
        meant=near[0] if misspelled else "",
        credit=0.0 if near_words().has(term.text) else CREDIT,
    )


def nearest_word(word: str, vocabulary: Vocabulary, expired: Rows) -> str | None:
    """Return the word with the fewest edits, then the one that most records hold.

    An edit inserts, deletes or replaces a letter, or swaps two. Words that only expired records
    hold are never returned. Returns None if no word is near.
    """
    if not SHORTEST <= len(word) <= LONGEST or in_letters(word):
        return None
    near = _held(word, set(_one_edit(word)) - {word}, vocabulary)
    near = near or _two_edits_away(word, vocabulary)
    return next(_without_expired(near, vocabulary, expired), None)


def _held(word: str, edits: Collection[str], vocabulary: Vocabulary) -> dict[str, int]:
    """Return the edits of a word that the store has, with their number of records.

    Most begin as the word does. Reading all words with that beginning is faster than looking each
    edit up, unless there are too many.
    """
    for beginning in (word[:1], word[:2]):
        alike = vocabulary.beginning(beginning, MAX_ALIKE)
        if len(alike) < MAX_ALIKE:
            found = vocabulary.among([one for one in edits if not one.startswith(beginning)])
            return found | {one: alike[one] for one in edits if one in alike}
    return vocabulary.among(edits)


def _two_edits_away(word: str, vocabulary: Vocabulary) -> dict[str, int]:
    """Return words of the store two edits away in the second half, with their number of records."""
    if len(word) < FOR_TWO:
        return {}
    alike = vocabulary.beginning(word[: len(word) // 2], MAX_ALIKE)
    return {one: count for one, count in alike.items() if one != word and _within_two(word, one)}


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

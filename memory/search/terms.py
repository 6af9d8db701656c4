"""What a query looks for, term by term: a stem with its spellings, a phrase, a beginning, two
letters of Chinese."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from memrelay.memory.search.query import Query, match_all
from memrelay.memory.search.results import SearchContext
from memrelay.memory.sqlite.postings import Postings
from memrelay.memory.sqlite.rows import Rows
from memrelay.memory.sqlite.vocabulary import Vocabulary
from memrelay.memory.text.folding import folded
from memrelay.memory.text.stems import Stems
from memrelay.memory.text.stopwords import without_stop_words
from memrelay.memory.text.words import in_letters, plain_tokens, taken_apart, tokens

MOST_TERMS = 256  # of a query, a phrase of n words as n - 1; what comes after is not looked for
# what another form of an irregular word counts, beside the word as it is asked for (docs/search-quality.md)
KIN = 0.5
# times that one record may count for a term: by its content, its parts, and several spellings
MOST_COUNTED = 4
MOST_PLACES = 30_000  # of the words that begin alike, at which they are looked for: 10 to 30 ms


@dataclass(frozen=True, slots=True)
class Term:
    """Something to look for: the spellings of a stem, or what an expression of FTS5 finds."""

    text: str  # as it is shown
    records: int  # that hold it, about: one that holds two spellings is counted twice
    spellings: tuple[str, ...] = ()
    found: Rows | None = field(default=None, compare=False)  # by an expression
    whole: bool = True  # else more records than these hold it
    kin: tuple[str, ...] = ()  # of the spellings, those that are other forms of an irregular word

    def postings(self, vocabulary: Vocabulary) -> Postings:
        """Its records. Where it is an expression, each holds it once."""
        if self.found is None:
            return _together([self._counted(one, vocabulary) for one in self.spellings])
        return Postings(self.found, np.ones(len(self.found), np.float32))

    def _counted(self, spelling: str, vocabulary: Vocabulary) -> Postings:
        found = vocabulary.postings(spelling)
        return (
            Postings(found.rows, found.counts * np.float32(KIN)) if spelling in self.kin else found
        )


def terms_of(query: Query, scene: SearchContext, stems: Stems, language: str) -> list[Term]:
    """What the query looks for, each once, also what no record holds. Stop words are left out,
    unless they are all there is."""
    found: dict[str, Term] = {}
    vocabulary = scene.vocabulary
    expressions, words = _looked_for(query, language)
    for expression, text in expressions.items():
        found[expression] = _found(expression, text, vocabulary)
    for word in words:
        root = stems.root(word)
        if root not in found:
            same = stems.spellings(word, vocabulary)
            kin = stems.kin(word, same, vocabulary)
            spellings = same | kin
            found[root] = Term(word, sum(spellings.values()), tuple(spellings), kin=tuple(kin))
    return [_as_told(term, scene) for term in found.values()]


def _as_told(term: Term, scene: SearchContext) -> Term:
    """A term of which all records have expired is in none: nothing tells of these, though the index
    has them for a while."""
    if not 0 < term.records <= MOST_COUNTED * len(scene.expired):
        return term
    rows = term.postings(scene.vocabulary).rows
    return (
        term
        if np.isin(rows, scene.expired, invert=True).any()
        else Term(term.text, 0, found=rows[:0])
    )


def is_cut(query: Query, language: str) -> bool:
    """Whether the query has more than is looked for."""
    return _looked_for(query, language) != _looked_for(query, language, sys.maxsize)


def _looked_for(
    query: Query, language: str, most: int = MOST_TERMS
) -> tuple[dict[str, str], tuple[str, ...]]:
    """(the expressions with their texts, the words) that are looked for."""
    expressions: dict[str, str] = {}
    for expression, text in _expressions(query):
        if expression not in expressions and (most := most - max(len(tokens(text)) - 1, 1)) >= 0:
            expressions[expression] = text
    words = without_stop_words(
        tuple(dict.fromkeys(_words(query))), language, others=bool(expressions)
    )
    return expressions, words[: max(most, 0)]


def _found(expression: str, text: str, vocabulary: Vocabulary) -> Term:
    """What an expression finds. Of a single word's beginning, which may be that of all words there
    are, not everything."""
    words = tokens(text) if text.endswith("*") else []
    if (
        len(words) == 1
        and expression == match_all(Query(prefixes=(text[:-1],)))
        and taken_apart(text[:-1]) is None
    ):
        rows, whole = vocabulary.begun(words[0], MOST_PLACES)
    else:
        rows, whole = vocabulary.matching(expression), True
    return Term(text, len(rows), found=rows, whole=whole)


def stop_words_of(query: Query, language: str) -> tuple[str, ...]:
    """The words of the query that are left out."""
    words = tuple(dict.fromkeys(_words(query)))
    kept = without_stop_words(words, language, others=next(_expressions(query), None) is not None)
    return tuple(word for word in words if word not in kept)


def _words(query: Query) -> Iterator[str]:
    """Single words, as the index has them."""
    for text in (*query.words, *query.phrases):
        plain = folded(text)
        words = tokens(plain)
        if not in_letters(text) and (len(words) > 1 or taken_apart(plain) is None):
            yield from words


def _expressions(query: Query) -> Iterator[tuple[str, str]]:
    """(expression, text): phrases of several words, beginnings, identifiers with their parts, and
    letters that are words."""
    for text in query.phrases:
        if len(plain_tokens(text)) > 1 and not in_letters(text):
            yield match_all(Query(phrases=(text,))), f'"{text}"'
    for text in query.prefixes:
        yield match_all(Query(prefixes=(text,))), f"{text}*"
    for text in (*query.words, *query.phrases):
        if in_letters(text):
            yield from _letters(text)
        elif taken_apart(folded(text)) is not None:
            yield match_all(Query(words=(text,))), text


def _letters(text: str) -> Iterator[tuple[str, str]]:
    """Chinese has no spaces: two letters side by side say more than one, and seldom less than a
    word."""
    apart = [tokens(piece) for piece in (taken_apart(text) or text).split()]
    letters = [piece[0] for piece in apart if piece]
    for pair in pairwise(letters) if len(letters) > 1 else [letters]:
        phrase = " ".join(pair)
        yield f'"{phrase}"', "".join(pair)


def _together(parts: list[Postings]) -> Postings:
    """The spellings of a stem as one: a record's counts are added."""
    if len(parts) == 1:
        return parts[0]
    rows = np.concatenate([part.rows for part in parts])
    order = np.argsort(rows, kind="stable")
    rows, counts = rows[order], np.concatenate([part.counts for part in parts])[order]
    first = np.flatnonzero(np.diff(rows, prepend=-1))
    return Postings(rows[first], np.add.reduceat(counts, first) if len(first) else counts)

"""The terms of a query: stems with their spellings, phrases, prefixes, and pairs of CJK letters."""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from memrelay.memory.engine.postings import Postings
from memrelay.memory.engine.row_arrays import Rows
from memrelay.memory.engine.vocabulary import Vocabulary
from memrelay.memory.search.embedding.near_words import near_words
from memrelay.memory.search.query import Query, match_all
from memrelay.memory.search.results import SearchContext
from memrelay.memory.search.text.folding import folded
from memrelay.memory.search.text.stems import Stems
from memrelay.memory.search.text.stopwords import is_stop_pair, without_stop_words
from memrelay.memory.search.text.words import in_letters, plain_tokens, taken_apart, tokens

MAX_TERMS = 256  # of a query; a phrase of n words counts as n - 1; the rest is ignored
# The weight of another form of an irregular word, and of a word that means nearly the same
# (docs/recall.md).
KIN = 0.3
# How often one record may count for a term: by content, by parts, and by several spellings.
MAX_COUNTED = 4
# The weight of a word outside the sentences of a long message that ask; 0.05 to 0.2 score the same.
BACKGROUND = 0.1
# Postings that are read for the words of a prefix: 10 to 30 ms.
MAX_PLACES = 30_000


@dataclass(frozen=True, slots=True)
class Term:
    """A term to search for: the spellings of a stem, or the matches of an FTS5 expression."""

    text: str  # for display
    records: int  # that hold it, approximately: one with two spellings is counted twice
    spellings: tuple[str, ...] = ()
    found: Rows | None = field(default=None, compare=False)  # matches of an expression
    whole: bool = True  # False if more records than these hold it
    # the spellings that count less: other irregular forms, and words that mean nearly the same
    kin: tuple[str, ...] = ()
    near: tuple[str, ...] = ()  # similar words that are searched for, because no record has this
    meant: str = ""  # the first of them, if the text is misspelled
    credit: float = 1.0  # the share of its weight that a record with the term has
    emphasis: float = 1.0  # less in a sentence that does not ask

    def weight(self, records: int) -> float:
        """Return the weight of the term in a query to a store of so many records.

        Unlike idf, it is bounded and the same for stores of up to a thousand records. It is 7.6 for
        an unknown term and 4.5 for a term that one in a hundred records holds.
        """
        return self.emphasis * math.log(
            1 + 1 / (min(self.records / max(records, 1000), 1.0) + 0.0005)
        )

    def postings(self, vocabulary: Vocabulary) -> Postings:
        """Return the records that hold the term. Matches of an expression count once each."""
        if self.found is None:
            return _merge([self._counted(one, vocabulary) for one in self.spellings])
        return Postings(self.found, np.ones(len(self.found), np.float32))

    def _counted(self, spelling: str, vocabulary: Vocabulary) -> Postings:
        found = vocabulary.postings(spelling)
        return (
            Postings(found.rows, found.counts * np.float32(KIN)) if spelling in self.kin else found
        )


def parse_terms(query: Query, context: SearchContext, stems: Stems, language: str) -> list[Term]:
    """Return the distinct terms of a query, including terms that no record holds.

    Stop words are left out, unless the query has nothing else.
    """
    found: dict[str, Term] = {}
    vocabulary = context.vocabulary
    expressions, words = _select(query, language)
    for expression, text in expressions.items():
        found[expression] = _find_expression(expression, text, vocabulary)
    for word in words:
        root = stems.root(word)
        if root not in found:
            found[root] = make_term(word, stems, vocabulary)
    return [hide_expired(term, context) for term in found.values()]


def make_term(word: str, stems: Stems, vocabulary: Vocabulary) -> Term:
    """Return the term of a single word, with all spellings that the store has."""
    same = stems.spellings(word, vocabulary)
    kin = stems.kin(word, same, vocabulary)
    for near in near_words().neighbors(word) if stems.is_english else ():
        if near not in same and (count := vocabulary.count(near)):
            kin[near] = count
    spellings = same | kin
    return Term(word, sum(spellings.values()), tuple(spellings), kin=tuple(kin))


def emphasize(terms: list[Term], asking: str, stems: Stems) -> list[Term]:
    """Reduce the weight of terms that do not occur in the asking part of a long message."""
    if not asking:
        return terms
    roots = set(map(stems.root, plain_tokens(asking)))
    return [
        term
        if roots.intersection(map(stems.root, plain_tokens(term.text)))
        else replace(term, emphasis=BACKGROUND)
        for term in terms
    ]


def hide_expired(term: Term, context: SearchContext) -> Term:
    """Return the term without records if all of its records have expired.

    The index holds expired records for a while, but no result may reveal them.
    """
    if not 0 < term.records <= MAX_COUNTED * len(context.expired):
        return term
    rows = term.postings(context.vocabulary).rows
    return (
        term
        if np.isin(rows, context.expired, invert=True).any()
        else Term(term.text, 0, found=rows[:0])
    )


def is_truncated(query: Query, language: str) -> bool:
    """Return whether the query has more terms than are searched for."""
    return _select(query, language) != _select(query, language, sys.maxsize)


def _select(
    query: Query, language: str, most: int = MAX_TERMS
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return (expressions with their texts, words) to search for."""
    expressions: dict[str, str] = {}
    for expression, text in _expressions(query):
        if expression not in expressions and (most := most - max(len(tokens(text)) - 1, 1)) >= 0:
            expressions[expression] = text
    words = without_stop_words(
        tuple(dict.fromkeys(_words(query))), language, others=bool(expressions)
    )
    return expressions, words[: max(most, 0)]


def _find_expression(expression: str, text: str, vocabulary: Vocabulary) -> Term:
    """Search for an expression. The matches of a single word's prefix are limited."""
    words = tokens(text) if text.endswith("*") else []
    if (
        len(words) == 1
        and expression == match_all(Query(prefixes=(text[:-1],)))
        and taken_apart(text[:-1]) is None
    ):
        rows, whole = vocabulary.begun(words[0], MAX_PLACES)
    else:
        rows, whole = vocabulary.matching(expression), True
    return Term(text, len(rows), found=rows, whole=whole)


def stop_words_of(query: Query, language: str) -> tuple[str, ...]:
    """Return the words of the query that are left out as stop words."""
    words = tuple(dict.fromkeys(_words(query)))
    kept = without_stop_words(words, language, others=next(_expressions(query), None) is not None)
    _, pairs = _letter_pairs(query)
    return (*(word for word in words if word not in kept), *pairs)


def _words(query: Query) -> Iterator[str]:
    """Yield single words in the form of the index."""
    for text in (*query.words, *query.phrases):
        plain = folded(text)
        words = tokens(plain)
        if not in_letters(text) and (len(words) > 1 or taken_apart(plain) is None):
            yield from words


def _expressions(query: Query) -> Iterator[tuple[str, str]]:
    """Yield (expression, text) of phrases, prefixes, identifiers with parts, and CJK letters."""
    for text in query.phrases:
        if len(plain_tokens(text)) > 1 and not in_letters(text):
            yield match_all(Query(phrases=(text,))), f'"{text}"'
    for text in query.prefixes:
        yield match_all(Query(prefixes=(text,))), f"{text}*"
    for pair in _letter_pairs(query)[0]:
        yield f'"{" ".join(pair)}"', "".join(pair)
    for text in (*query.words, *query.phrases):
        if not in_letters(text) and taken_apart(folded(text)) is not None:
            yield match_all(Query(words=(text,))), text


def _letter_pairs(query: Query) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return (the pairs of adjacent CJK letters to search for, those that are stop words).

    Words are not separated and rarely have one letter. Stop words are searched for if the query
    has nothing else.
    """
    texts = list(filter(in_letters, (*query.words, *query.phrases)))
    pairs = {"".join(pair): pair for text in texts for pair in _pairs_of(text)}
    stop_words = list(filter(is_stop_pair, pairs))
    if len(stop_words) == len(pairs) and len(texts) == len(query.words) + len(query.phrases):
        stop_words = []
    return [pair for joined, pair in pairs.items() if joined not in stop_words], stop_words


def _pairs_of(text: str) -> list[tuple[str, ...]]:
    apart = [tokens(piece) for piece in (taken_apart(text) or text).split()]
    letters = [piece[0] for piece in apart if piece]
    return list(pairwise(letters)) if len(letters) > 1 else [tuple(letters)]


def _merge(parts: list[Postings]) -> Postings:
    """Merge the postings of a stem's spellings, adding up the counts of each record."""
    if len(parts) == 1:
        return parts[0]
    rows = np.concatenate([part.rows for part in parts])
    order = np.argsort(rows, kind="stable")
    rows, counts = rows[order], np.concatenate([part.counts for part in parts])[order]
    first = np.flatnonzero(np.diff(rows, prepend=-1))
    return Postings(rows[first], np.add.reduceat(counts, first) if len(first) else counts)

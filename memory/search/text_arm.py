"""The text arm: the sum of BM25 scores of a record, its window and its thread segment.

The sum finds a quarter more relevant records than the record alone (docs/search-quality.md).
`Relevance` computes FTS5's own scores in memory, for the search modes that use FTS5.
"""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.search.granularities import Scores, idf
from memrelay.memory.search.layout import Layout, Places
from memrelay.memory.search.query import Query
from memrelay.memory.search.results import ArmScores, Doubles, Floats, SearchContext, best_places
from memrelay.memory.search.spelling import correct_terms
from memrelay.memory.search.terms import Term, parse_terms
from memrelay.memory.sqlite.postings import BYTES_A_POSTING, Postings, max_cache_bytes
from memrelay.memory.sqlite.row_arrays import Rows
from memrelay.memory.sqlite.vocabulary import Vocabulary
from memrelay.memory.text.stems import Stems
from memrelay.memory.text.words import plain_tokens, taken_apart, tokens

HALF_SCORE = 8.0  # the raw score that maps to 0.5
SPEAKER_BOOST = 1.3  # the factor for records whose speaker the query names
# The store must know this share of the query, by weight. With two terms, one that is not
# common is enough.
MIN_COVERAGE = 0.4
MIN_COVERAGE_OF_TWO = 0.3
# The share of a corrected word's weight that counts as known.
CORRECTED_CREDIT = 0.5
# Postings read for a query: this many, plus one for each so many records of the store.
MAX_POSTINGS = 30_000
RECORDS_PER_POSTING = 5

# Constants of FTS5.
FTS5_K1, FTS5_B, FTS5_MIN_IDF = 1.2, 0.75, 1e-6
# `Relevance` is faster than FTS5 from this many postings on.
MIN_POSTINGS_IN_MEMORY = 50_000
MAX_COUNTED = 2000  # words
# A word is counted again once the store has grown by this factor.
GROWTH = 1.25


@dataclass(frozen=True, slots=True)
class TextScores(ArmScores):
    """Scores of the text arm, with the terms behind them."""

    terms: tuple[tuple[Term, Places], ...]  # each term that was scored, and the places that hold it
    unknown: tuple[Term, ...]  # terms that no record holds
    left_out: tuple[Term, ...]  # terms that too many records hold
    coverage: float  # the share of the query that the store knows, by weight
    speakers: tuple[int, ...]  # speakers named in the query
    min_coverage: float  # the coverage below which no term is scored
    all_terms: tuple[Term, ...]  # all terms of the query

    def correct(self, question: str) -> str:
        """Return the question with the corrections of misspelled words."""
        for term in self.all_terms:
            if term.meant:
                question = re.sub(rf"\b{re.escape(term.text)}\b", term.meant, question, flags=re.I)
        return question

    def speaker_turns(self, layout: Layout) -> NDArray[np.bool_] | None:
        """Return which places are turns of the speaker that the query names.

        Returns None if the query names no speaker, or several.
        """
        return layout.source == self.speakers[0] if len(self.speakers) == 1 else None


def score_text(
    context: SearchContext,
    query: Query,
    stems: Stems,
    language: str,
    *,
    beside: Collection[str] = (),
    floor: bool = True,
) -> TextScores:
    """Score all records that hold a term, or whose window or segment does.

    Nothing is scored if the store knows too little of the query: matches would be accidental.
    Without `floor`, this limit does not apply. Words in `beside` do not count as unknown,
    because the search understands them in another way, for example as dates.
    """
    layout = context.layout
    terms = parse_terms(query, context, stems, language)
    terms = correct_terms(terms, context, stems, language, understood=beside)
    counted = [term for term in terms if term.records or term.text not in beside]
    words = set(plain_tokens(" ".join((*query.words, *query.phrases))))
    words |= {term.meant for term in terms}
    covered, named = coverage(counted, len(layout)), layout.find_speakers(words)
    min_coverage = 0.0 if not floor else MIN_COVERAGE_OF_TWO if len(counted) == 2 else MIN_COVERAGE
    known = [term for term in terms if term.records] if covered >= min_coverage or named else []
    wanted, left_out = _select_terms(known, len(layout))
    raw, held = _score_terms(context, wanted)
    if len(named) == 1:
        raw[layout.source == named[0]] *= np.float32(SPEAKER_BOOST)
    unknown = tuple(term for term in terms if not term.records)
    return TextScores(
        "text",
        raw,
        raw / (raw + np.float32(HALF_SCORE)),
        held,
        unknown,
        left_out,
        covered,
        tuple(named),
        min_coverage,
        tuple(terms),
    )


def coverage(terms: list[Term], records: int) -> float:
    """Return the share of the terms' weight that the store knows; 0 without terms.

    Unlike idf, a weight is bounded and independent of the size of the store. It is 7.6 for an
    unknown term and 4.5 for a term that one in a hundred records holds.
    """
    weights = [
        math.log(1 + 1 / (min(term.records / max(records, 1000), 1.0) + 0.0005)) for term in terms
    ]
    known = sum(
        weight * (1 if not term.near else CORRECTED_CREDIT if term.meant else 0)
        for term, weight in zip(terms, weights, strict=True)
        if term.records
    )
    return known / sum(weights) if weights else 0.0


def _select_terms(terms: list[Term], records: int) -> tuple[list[Term], tuple[Term, ...]]:
    """Return (terms to score, terms to leave out), the rarest first.

    The rarest term is always scored. The number of postings limits the others: the commonest
    terms distinguish records least and cost most. Prefixes with too many words come last.
    """
    most = MAX_POSTINGS + records // RECORDS_PER_POSTING
    ordered = sorted(terms, key=lambda term: (not term.whole, term.records, term.text))
    together = np.cumsum([term.records for term in ordered if term.whole])
    taken = max(1, int(np.searchsorted(together, most, side="right")))
    return ordered[:taken], tuple(ordered[taken:])


def _score_terms(
    context: SearchContext, wanted: list[Term]
) -> tuple[Floats, tuple[tuple[Term, Places], ...]]:
    """Return (raw scores by place, the places that hold each term).

    The score of a turn is the mean over the three granularities.
    """
    layout, held = context.layout, []
    sums = [Scores(granularity) for granularity in context.granularities.all]
    for term in wanted:
        rows, counts = term.postings(context.vocabulary).without(context.expired)
        places = layout.places(rows)
        held.append((term, places))
        for one in sums:
            one.add(idf(len(layout), len(rows)), places, counts)
    raw = np.zeros(len(layout), np.float32)
    for one in sums:  # windows and segments are empty for records without a thread
        raw += one.at_places()
    if len(sums) > 1:
        raw *= np.where(layout.source >= 0, np.float32(1 / len(sums)), np.float32(1))
    return raw, tuple(held)


class Relevance:
    """The relevance of FTS5, computed in memory, for one store inside its open transaction.

    Scores equal those of FTS5 to the last bit. FTS5 counts each word's records and looks up the
    length of each match in every search: 0.6 us per match and 0.05 us per posting. Here both
    are cached, and a match takes about 0.02 us.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        # word -> (records that hold it, highest row at that time)
        self._counted: dict[str, tuple[int, int]] = {}

    def is_faster(self, words: Sequence[str], last_row: int) -> bool:
        """Return whether enough records hold the words, and the cache has room for them."""
        together = sum(self._about(word, last_row) for word in words)
        return together >= MIN_POSTINGS_IN_MEMORY and together * BYTES_A_POSTING <= max_cache_bytes(
            last_row
        )

    def best(self, context: SearchContext, words: Sequence[str], limit: int) -> dict[int, float]:
        """Return row -> score of the best records whose content holds all words, best first."""
        layout, held = context.layout, [self._vocabulary.contents(word) for word in words]
        rows = min((one.rows for one in held), key=len)
        for one in held:
            rows = rows[one.counts_at(rows) > 0]
        places = layout.places(rows)  # leaves out expired rows
        if context.allowed is not None:
            places = places[context.allowed[places]]
        if not len(places):
            return {}
        records, length = self._vocabulary.totals(words[0])
        norm: Doubles = FTS5_K1 * (
            (1 - FTS5_B) + (FTS5_B * layout.tokens[places].astype(np.float64)) / (length / records)
        )
        scores = np.zeros(len(layout))
        for one in held:
            scores[places] += _idf_worth(one, layout.row[places], records, norm)
        found = best_places(scores, places, context, limit)
        return dict(zip(layout.row[found].tolist(), scores[found].tolist(), strict=True))

    def _about(self, word: str, last_row: int) -> int:
        """Return how many records held the word when it was last counted."""
        count, rows = self._counted.get(word, (0, 0))
        if last_row > rows * GROWTH:
            if len(self._counted) >= MAX_COUNTED:
                self._counted.clear()
            count = self._vocabulary.among((word,)).get(word, 0)
            self._counted[word] = count, last_row
        return count


def plain_words(query: Query) -> tuple[str, ...]:
    """Return the words in the form of the index.

    Returns no words if the query has phrases or prefixes, or words that are indexed in parts.
    """
    if query.phrases or query.prefixes:
        return ()
    words = [tokens(word) for word in query.words]
    plain = all(
        len(found) == 1 and taken_apart(word) is None
        for word, found in zip(query.words, words, strict=True)
    )
    return tuple(found for (found,) in words) if plain else ()


def _idf_worth(held: Postings, rows: Rows, records: int, norm: Doubles) -> Doubles:
    """Return what one word adds to the score of each row, in FTS5's order of operations."""
    holding = len(held.rows)
    idf = math.log((records - holding + 0.5) / (holding + 0.5))
    counts = held.counts_at(rows).astype(np.float64)
    return (idf if idf > 0 else FTS5_MIN_IDF) * ((counts * (FTS5_K1 + 1)) / (counts + norm))

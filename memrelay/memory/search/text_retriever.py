"""The text retriever: the sum of BM25 scores of a record, its window and its thread segment.

The sum finds a quarter more relevant records than the record alone (docs/recall.md).
`Relevance` computes FTS5's own scores in memory, for the search modes that use FTS5.
"""

import math
import re
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from memrelay.memory.engine.postings import BYTES_A_POSTING, Postings, max_cache_bytes
from memrelay.memory.engine.row_arrays import Rows
from memrelay.memory.engine.vocabulary import Vocabulary
from memrelay.memory.search.granularities import K1, B, Scores, idf
from memrelay.memory.search.layout import Layout, Places
from memrelay.memory.search.query import Query
from memrelay.memory.search.results import (
    Doubles,
    Floats,
    RetrieverScores,
    SearchContext,
    best_places,
)
from memrelay.memory.search.spelling import correct_terms
from memrelay.memory.search.terms import Term, emphasize, parse_terms, stop_words_of
from memrelay.memory.search.text.dates import NO_TIMES, Times
from memrelay.memory.search.text.folding import shown
from memrelay.memory.search.text.stems import Stems
from memrelay.memory.search.text.words import plain_tokens, taken_apart, tokens

HALF_SCORE = 8.0  # the raw score that maps to 0.5
SPEAKER_BOOST = 1.3  # the factor for records whose speaker the query names
# A window, or a record without a thread, must hold this share of the query, by weight: less in a
# small store, where chance matches are rare, and in a question, which random words are not
# (docs/recall.md). Words that meet by chance in less than one in 20 stores of that size are enough.
MIN_COVERAGE_SMALL, SMALL_STORE = 0.24, 500  # records
MIN_COVERAGE_LARGE, LARGE_STORE = 0.48, 2000
MIN_COVERAGE_QUESTION, QUESTION_STOP_WORDS = 0.15, 2
CHANCE = 1 / 20
# Postings read for a query: this many, plus one for each so many records of the store.
MAX_POSTINGS = 30_000
RECORDS_PER_POSTING = 5

# Of FTS5.
FTS5_MIN_IDF = 1e-6
# `Relevance` is faster than FTS5 from this many postings on.
MIN_POSTINGS_IN_MEMORY = 50_000
MAX_COUNTED = 2000  # words
# A word is counted again once the store has grown by this factor.
GROWTH = 1.25


@dataclass(frozen=True, slots=True)
class TextScores(RetrieverScores):
    """Scores of the text retriever, with the terms behind them."""

    terms: tuple[tuple[Term, Places], ...]  # each term that was scored, and the places that hold it
    left_out: tuple[Term, ...]  # terms that too many records hold
    coverage: float  # the largest share of the query that one window holds, by weight
    speakers: Sequence[int]  # speakers named in the query
    names: Set[str]  # the words of their names, also in short
    min_coverage: float  # the coverage below which no term is scored
    all_terms: tuple[Term, ...]  # all terms of the query
    # BM25 of the record, its window and its segment, by place; of the record alone without threads
    granularities: tuple[Floats, ...]

    def scores_beyond(self, words: Collection[str]) -> bool:
        """Return whether a term besides these words was scored."""
        return any(term.text not in words for term, _ in self.terms)

    def correct(self, question: str) -> str:
        """Return the question with the corrections of misspelled words."""
        for term in self.all_terms:
            if term.meant:
                question = re.sub(rf"\b{re.escape(term.text)}\b", term.meant, question, flags=re.I)
        return question


def score_text(
    context: SearchContext,
    query: Query,
    stems: Stems,
    language: str,
    *,
    times: Times = NO_TIMES,
    asking: str = "",
    floor: bool = True,
) -> TextScores:
    """Score all records that hold a term, or whose window or segment does.

    Nothing is scored if no window holds enough of the query: matches would be accidental.
    Without `floor`, this limit does not apply. Words of dates do not count as unknown, and relative
    ones (`yesterday`) are left out. Words outside the `asking` part of a long message
    count little.
    """
    layout = context.layout
    stop_words = stop_words_of(query, language)
    short = layout.names.find_short_names(_capitalized(query) - times.words.union(stop_words))
    parsed = parse_terms(query, context, stems, language)
    found = [term for term in parsed if term.text not in times.relative_words]
    terms = correct_terms(
        emphasize(found, asking, stems),
        context,
        stems,
        language,
        understood=times.words.union(short),
    )
    words = set(plain_tokens(" ".join((*query.words, *query.phrases))))
    named = layout.find_speakers(words | {term.meant for term in terms}, short.values())
    wanted, left_out = _select_terms([term for term in terms if term.records], len(layout))
    parts, held, largest = _score_terms(context, wanted)
    raw = _combine(parts, layout)
    counted = [term for term in terms if term.records or term.text not in times.words]
    total = max(sum(term.weight(len(layout)) for term in counted), 1e-6)
    covered = _coverage(largest, left_out, total, len(layout))
    least = _min_coverage(stop_words, total, len(layout)) if floor else 0.0
    if covered < least and not named:
        raw, held, left_out = np.zeros_like(raw), (), ()
    if len(named) == 1:
        raw[layout.source == named[0]] *= np.float32(SPEAKER_BOOST)
    score = raw / (raw + np.float32(HALF_SCORE))
    names = layout.names.words_in_names(named)
    names |= {word for word, number in short.items() if number in named}
    return TextScores(
        "text", raw, score, held, left_out, covered, named, names, least, tuple(terms), parts
    )


def _capitalized(query: Query) -> set[str]:
    """Return the words that begin with a capital, but not the first one without a genitive."""
    genitives = ("'s", "\u2019s")
    words = [
        word.removesuffix(genitives[0]).removesuffix(genitives[1])
        for at, word in enumerate(query.words)
        if word[:1].isupper() and not word.isupper() and (at or word.endswith(genitives))
    ]
    return set(plain_tokens(" ".join(words)))


def _coverage(largest: float, left_out: Iterable[Term], total: float, records: int) -> float:
    """Return the largest share of the query in one window. Terms left out are everywhere.

    `total` is the weight of the query.
    """
    held = largest + sum(term.weight(records) for term in left_out)
    return min(held / total, 1.0)


def _min_coverage(stop_words: Collection[str], total: float, records: int) -> float:
    """Return the share of the query that a window must hold.

    The weight of a term is about -ln of the share of records that hold it. So e^-w of all windows
    hold terms of the weight w together by chance.
    """
    if len(stop_words) >= QUESTION_STOP_WORDS:
        return MIN_COVERAGE_QUESTION
    usual = np.interp(
        math.log(max(records, 1)),
        (math.log(SMALL_STORE), math.log(LARGE_STORE)),
        (MIN_COVERAGE_SMALL, MIN_COVERAGE_LARGE),
    )
    rare = math.log(max(records, 1000) / CHANCE)
    return min(float(usual), rare / total)


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
) -> tuple[tuple[Floats, ...], tuple[tuple[Term, Places], ...], float]:
    """Return (BM25 of each granularity by place, the places that hold each term, the largest
    weight in a window).
    """
    layout, held = context.layout, []
    sums = [Scores(granularity) for granularity in context.granularities.all]
    # of the terms of each turn and each window
    weights = [np.zeros(len(layout), np.float32) for _ in sums[:2]]
    for term in wanted:
        rows, counts = term.postings(context.vocabulary).without(context.expired)
        places = layout.places(rows)
        held.append((term, places))
        weight = np.float32(term.credit * term.weight(len(layout)))
        for one, together in zip_longest(sums, weights):
            units = one.add(term.emphasis * idf(len(layout), len(rows)), places, counts)
            if together is not None:
                together[units] += weight
    parts = tuple(one.at_places() for one in sums)
    return parts, tuple(held), max(float(together.max(initial=0)) for together in weights)


def _combine(parts: tuple[Floats, ...], layout: Layout) -> Floats:
    """Return raw scores by place. That of a turn is the mean over the three granularities."""
    raw = np.zeros(len(layout), np.float32)
    for part in parts:  # windows and segments are empty for records without a thread
        raw += part
    if len(parts) > 1:
        raw *= np.where(layout.source >= 0, np.float32(1 / len(parts)), np.float32(1))
    return raw


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
        norm: Doubles = K1 * (
            (1 - B) + (B * layout.tokens[places].astype(np.float64)) / (length / records)
        )
        scores = np.zeros(len(layout))
        for one in held:
            scores[places] += _idf_worth(one, layout.row[places], records, norm)
        found = best_places(scores, places, context, limit, oldest_first=True)
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
        len(found) == 1 and taken_apart(word) is None and shown(word) == word
        for word, found in zip(query.words, words, strict=True)
    )
    return tuple(found for (found,) in words) if plain else ()


def _idf_worth(held: Postings, rows: Rows, records: int, norm: Doubles) -> Doubles:
    """Return what one word adds to the score of each row, in FTS5's order of operations."""
    holding = len(held.rows)
    idf = math.log((records - holding + 0.5) / (holding + 0.5))
    counts = held.counts_at(rows).astype(np.float64)
    return (idf if idf > 0 else FTS5_MIN_IDF) * ((counts * (K1 + 1)) / (counts + norm))

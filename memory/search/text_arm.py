"""The text arm: BM25 of a record, of its window and of its segment of the thread, added up.

Measured (docs/search-quality.md): the sum of the three finds a quarter more of what was asked for than the
record alone.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.search.granularities import Scores, idf
from memrelay.memory.search.layout import Layout, Places
from memrelay.memory.search.query import Query
from memrelay.memory.search.results import Doubles, Floats, Found, SearchContext, best
from memrelay.memory.search.terms import Term, terms_of
from memrelay.memory.sqlite.postings import BYTES_A_POSTING, Postings, room_of
from memrelay.memory.sqlite.rows import Rows
from memrelay.memory.sqlite.vocabulary import Vocabulary
from memrelay.memory.text.stems import Stems
from memrelay.memory.text.words import plain_tokens, taken_apart, tokens

HALF = 8.0  # the raw score that is worth one half
SPEAKER = 1.3  # how much more a record counts whose speaker the query names
# of what is asked for, what the store must know of; of two terms, one that is not common will do
LEAST_COVERAGE = 0.4
LEAST_OF_TWO = 0.3
MOST_POSTINGS = (
    30_000,
    5,
)  # that are read for a query: so many, and of large stores one for each so many records


@dataclass(frozen=True, slots=True)
class TextFound(Found):
    """With what was looked for."""

    terms: tuple[tuple[Term, Places], ...]  # what was looked for, and the places that hold it
    unknown: tuple[Term, ...]  # what no record holds
    left_out: tuple[Term, ...]  # what too many hold
    coverage: float  # how much of the query the store knows of, by weight
    named: tuple[int, ...]  # speakers whom the query names
    least: float  # coverage below which nothing is looked for
    asked: tuple[Term, ...]  # all that the query has

    def spoken(self, layout: Layout) -> NDArray[np.bool_] | None:
        """By place: which are turns of the speaker whom the query names; None where it names
        nobody, or several."""
        return layout.source == self.named[0] if len(self.named) == 1 else None


def text_arm(
    scene: SearchContext,
    query: Query,
    stems: Stems,
    language: str,
    *,
    beside: Collection[str] = (),
    floor: bool = True,
) -> TextFound:
    """Scores of all records that hold a term, or whose window or segment does.

    Nothing, where the store knows of too little that is asked for: what would be found says nothing
    about it. Without the
    `floor` that does not count. The words `beside` need not be known, since they are understood
    otherwise.
    """
    layout = scene.layout
    terms = terms_of(query, scene, stems, language)
    asked = [term for term in terms if term.records or term.text not in beside]
    said = set(plain_tokens(" ".join((*query.words, *query.phrases))))
    covered, named = coverage(asked, len(layout)), layout.named(said)
    least = 0.0 if not floor else LEAST_OF_TWO if len(asked) == 2 else LEAST_COVERAGE
    known = [term for term in terms if term.records] if covered >= least or named else []
    wanted, left_out = _affordable(known, len(layout))
    raw, held = _scores(scene, wanted)
    if len(named) == 1:
        raw[layout.source == named[0]] *= np.float32(SPEAKER)
    unknown = tuple(term for term in terms if not term.records)
    return TextFound(
        "text",
        raw,
        raw / (raw + np.float32(HALF)),
        held,
        unknown,
        left_out,
        covered,
        tuple(named),
        least,
        tuple(terms),
    )


def coverage(terms: list[Term], records: int) -> float:
    """Of the weight of all terms, what those have that the store knows; 0 where there are none.

    A term's weight is bounded and means the same in stores of any size, which idf does not: it is
    7.6 for what is unknown, 4.5
    for what one record of a hundred holds.
    """
    weights = [
        math.log(1 + 1 / (min(term.records / max(records, 1000), 1.0) + 0.0005)) for term in terms
    ]
    known = sum(weight for term, weight in zip(terms, weights, strict=True) if term.records)
    return known / sum(weights) if weights else 0.0


def _affordable(terms: list[Term], records: int) -> tuple[list[Term], tuple[Term, ...]]:
    """(terms to look for, terms to leave out), the rarest first.

    The rarest is always looked for. What is added to it is bounded by the records that hold it:
    what most records hold
    tells them apart least, and costs most. The beginning of so many words that not all of them are
    known comes last, alone.
    """
    most = MOST_POSTINGS[0] + records // MOST_POSTINGS[1]
    ordered = sorted(terms, key=lambda term: (not term.whole, term.records, term.text))
    together = np.cumsum([term.records for term in ordered if term.whole])
    taken = max(1, int(np.searchsorted(together, most, side="right")))
    return ordered[:taken], tuple(ordered[taken:])


def _scores(
    scene: SearchContext, wanted: list[Term]
) -> tuple[Floats, tuple[tuple[Term, Places], ...]]:
    """(the raw scores by place, which places hold each term). A turn has the mean of the three
    granularities."""
    layout, held = scene.layout, []
    sums = [Scores(granularity) for granularity in scene.granularities.all]
    for term in wanted:
        rows, counts = term.postings(scene.vocabulary).without(scene.expired)
        places = layout.places(rows)
        held.append((term, places))
        for one in sums:
            one.add(idf(len(layout), len(rows)), places, counts)
    raw = np.zeros(len(layout), np.float32)
    for one in sums:  # of a record without a thread, windows and segments are empty
        raw += one.at_places()
    if len(sums) > 1:
        raw *= np.where(layout.source >= 0, np.float32(1 / len(sums)), np.float32(1))
    return raw, tuple(held)


# FTS5's relevance, reckoned in memory, for words that very many records hold: the order of
# docs/search.md, to the last bit.
#
# FTS5 counts the records of each word, and looks up how long each record is that it ranks, for every
# search: 0.6 us for a match,
# 0.05 for each record that holds one of the words. Here a match takes some 0.02, since both are kept.

K1, B, LEAST_IDF = 1.2, 0.75, 1e-6  # FTS5's own
LEAST = 50_000  # records that hold the words, together, from which on this is faster
MOST_COUNTED = 2000  # words
GROWN = 1.25  # times the rows that a store had when a word was counted: then it is counted again


class Relevance:
    """For one store, inside its open transaction."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """No word is counted yet."""
        self._vocabulary = vocabulary
        self._counted: dict[
            str, tuple[int, int]
        ] = {}  # word -> (records that hold it, highest row then)

    def is_faster(self, words: Sequence[str], last_row: int) -> bool:
        """Whether so many records hold the words; not, where what must be kept of them has no
        room."""
        together = sum(self._about(word, last_row) for word in words)
        return together >= LEAST and together * BYTES_A_POSTING <= room_of(last_row)

    def _about(self, word: str, last_row: int) -> int:
        """How many records held the word when it was counted."""
        count, rows = self._counted.get(word, (0, 0))
        if last_row > rows * GROWN:
            if len(self._counted) >= MOST_COUNTED:
                self._counted.clear()
            count = self._vocabulary.among((word,)).get(word, 0)
            self._counted[word] = count, last_row
        return count

    def best(self, scene: SearchContext, words: Sequence[str], limit: int) -> dict[int, float]:
        """Row -> score of the best of those whose content holds all the words, the best first, of
        equal ones the oldest."""
        layout, held = scene.layout, [self._vocabulary.contents(word) for word in words]
        rows = min((one.rows for one in held), key=len)
        for one in held:
            rows = rows[one.counts_at(rows) > 0]
        places = layout.places(rows)  # without what has expired
        if scene.allowed is not None:
            places = places[scene.allowed[places]]
        if not len(places):
            return {}
        records, length = self._vocabulary.totals(words[0])
        norm: Doubles = K1 * (
            (1 - B) + (B * layout.tokens[places].astype(np.float64)) / (length / records)
        )
        scores = np.zeros(len(layout))
        for one in held:
            scores[places] += _worth(one, layout.row[places], records, norm)
        found = best(scores, places, scene, limit)
        return dict(zip(layout.row[found].tolist(), scores[found].tolist(), strict=True))


def plain_words(query: Query) -> tuple[str, ...]:
    """The words as the index has them, where the query has nothing else that is wanted, and none is
    found by its parts."""
    if query.phrases or query.prefixes:
        return ()
    words = [tokens(word) for word in query.words]
    plain = all(
        len(found) == 1 and taken_apart(word) is None
        for word, found in zip(query.words, words, strict=True)
    )
    return tuple(found for (found,) in words) if plain else ()


def _worth(held: Postings, rows: Rows, records: int, norm: Doubles) -> Doubles:
    """What a word that all of the rows hold adds to the score of each, in the order in which FTS5
    reckons."""
    holding = len(held.rows)
    idf = math.log((records - holding + 0.5) / (holding + 0.5))
    counts = held.counts_at(rows).astype(np.float64)
    return (idf if idf > 0 else LEAST_IDF) * ((counts * (K1 + 1)) / (counts + norm))

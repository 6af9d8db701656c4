"""Reranks the best records of a search by how near their words are to the words of the query.

BM25 counts words as typed. This asks for each word whether it, or one with much the same meaning,
occurs at all. It is late interaction (Khattab and Zaharia 2020, ColBERT) on single words instead
of a model's states: it stores nothing and runs no model. docs/recall.md has measurements.
"""

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from memrelay.memory.engine.row_metadata import contents
from memrelay.memory.search.embedding.near_words import Words, near_words, words_of
from memrelay.memory.search.granularities import idf
from memrelay.memory.search.layout import Layout, Places
from memrelay.memory.search.results import Floats, Ranked, ScoreFactors, rank_order
from memrelay.memory.search.text_retriever import TextScores

READ = 16  # best records by score that are reranked; up to 48 give the same result
# A record that has everything gets this factor added to its odds. 0.7 to 1.4 score the same.
GAIN = 1.0
AROUND = 2  # neighbors on each side that are read with a turn
LONGEST = 2048  # bytes read of a record
NONE = np.zeros(0, np.int32)


class QueryWords(NamedTuple):
    """The words of the query."""

    words: Words
    weights: Floats  # sum to 1


class Reader:
    """Reads the texts of records in one search. Reads nothing before the first call."""

    def __init__(self, connection: apsw.Connection, layout: Layout, text: TextScores) -> None:
        self._connection, self._layout, self._text = connection, layout, text

    def score(self, places: Places, around: int) -> Floats:
        """Return how near each place and `around` turns on each side are to the query, 0 to 1."""
        columns = _windows(self._layout, places, around)
        read, at = np.unique(columns, return_inverse=True)
        by_word = self._nearness(read)[:, at.reshape(columns.shape)].max(axis=2)
        near: Floats = self._query_words.weights @ by_word
        return near

    def _nearness(self, places: Places) -> Floats:
        """Return a row per word of the query: its nearness to the nearest word of each place."""
        near = near_words()
        found = list(map(near.read, contents(self._connection, self._layout.row[places], LONGEST)))
        by_word = near.nearness(self._query_words.words, np.concatenate([NONE, *found]))
        table = np.zeros((len(by_word), len(places)), np.float32)
        sizes = np.fromiter(map(len, found), np.int64)
        there = sizes > 0
        if there.any():
            table[:, there] = np.maximum.reduceat(
                by_word, (np.cumsum(sizes) - sizes)[there], axis=1
            )
        return table

    @cached_property
    def _query_words(self) -> QueryWords:
        """The words, weighted as in BM25. Names of speakers are left out: they are not in texts."""
        names = self._layout.names.words_in_names(self._text.speakers)
        weights: dict[str, float] = {}
        for term in self._text.all_terms:
            worth = term.emphasis * idf(len(self._layout), min(term.records, len(self._layout)))
            weights |= {
                word: worth for word in words_of(term.meant or term.text) if word not in names
            }
        worths = np.fromiter(weights.values(), np.float32)
        return QueryWords(
            near_words().numbers(weights), worths / np.float32(max(worths.sum(), 1e-6))
        )


def rerank(ranked: Ranked, reader: Reader, factors: ScoreFactors) -> Ranked:
    """Reorder the first records by their scores after reading. The reported scores stay.

    The scores must not depend on which other records exist. Reading multiplies the odds of a
    score, s / (1 - s), which for words is the raw score divided by a constant.
    """
    places = ranked.places[:READ]
    scores = factors.multiply(ranked.scores, places)
    more = 1 + GAIN * reader.score(places, AROUND)
    read = (scores * more / (1 - scores + scores * more)).astype(np.float32)
    order = rank_order(read, places, ranked.context)
    reranked = dict(zip(places.tolist(), read.tolist(), strict=True))
    return replace(
        ranked, places=np.concatenate([places[order], ranked.places[READ:]]), reranked=reranked
    )


def _windows(layout: Layout, places: Places, around: int) -> NDArray[np.int64]:
    """Return a row per place with the places of its window. Missing neighbors are itself."""
    columns = places[:, None] + np.arange(-around, around + 1)
    inside = np.clip(columns, 0, len(layout) - 1)
    same = (inside == columns) & (layout.thread[inside] == layout.thread[places, None])
    return np.where(same, inside, places[:, None])

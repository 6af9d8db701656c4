"""The best of a ranked search are read again: each word that is asked for counts as near as the
nearest one that is there.

BM25 adds up the words that are there as they were asked for, again and again; this asks of each
whether it, or one that means
much the same, is there at all. That is late interaction (Khattab and Zaharia 2020, ColBERT), of
words by themselves instead
of a model's states: nothing is stored for it, and no model runs. Measured (docs/search-quality.md).
"""

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from memrelay.memory.embedding.near_words import Words, near_words, words_of
from memrelay.memory.search.granularities import idf
from memrelay.memory.search.layout import Layout, Places
from memrelay.memory.search.results import Floats, Ranked, Weights, ranking
from memrelay.memory.search.text_arm import TextFound
from memrelay.memory.sqlite.outline import contents

READ = 16  # of the best by score; up to 48 find the same
MORE = 1.0  # times as much counts what has all that is asked for; 0.7 to 1.4 is one plateau
AROUND = 2  # neighbours on each side that are read with a turn
LONGEST = 2048  # bytes of a record that is read
NONE = np.zeros(0, np.int32)


class Asked(NamedTuple):
    """The words that are asked for."""

    words: Words
    weights: Floats  # one together


class Reader:
    """Of one search."""

    def __init__(self, connection: apsw.Connection, layout: Layout, text: TextFound) -> None:
        """Reads nothing yet."""
        self._connection, self._layout, self._text = connection, layout, text

    def near(self, places: Places, around: int) -> Floats:
        """From 0 to 1: how near what is asked for is to what stands at each of these places, and so
        many turns around it."""
        columns = _windows(self._layout, places, around)
        read, at = np.unique(columns, return_inverse=True)
        by_word = self._nearness(read)[:, at.reshape(columns.shape)].max(axis=2)
        near: Floats = self._asked.weights @ by_word
        return near

    def _nearness(self, places: Places) -> Floats:
        """A row for each word that is asked for: how near the nearest one of each place is."""
        near = near_words()
        found = list(map(near.read, contents(self._connection, self._layout.row[places], LONGEST)))
        by_word = near.nearness(self._asked.words, np.concatenate([NONE, *found]))
        table = np.zeros((len(by_word), len(places)), np.float32)
        sizes = np.fromiter(map(len, found), np.int64)
        there = sizes > 0
        if there.any():
            table[:, there] = np.maximum.reduceat(
                by_word, (np.cumsum(sizes) - sizes)[there], axis=1
            )
        return table

    @cached_property
    def _asked(self) -> Asked:
        """Words weigh as they do for BM25; the names of speakers nothing, who stand beside what
        they say and not in it."""
        names = self._layout.names.words_of(self._text.named)
        weights: dict[str, float] = {}
        for term in self._text.asked:
            worth = idf(len(self._layout), min(term.records, len(self._layout)))
            weights |= {word: worth for word in words_of(term.text) if word not in names}
        worths = np.fromiter(weights.values(), np.float32)
        return Asked(near_words().numbers(weights), worths / np.float32(max(worths.sum(), 1e-6)))


def rerank(ranked: Ranked, reader: Reader, weights: Weights) -> Ranked:
    """With the first in the order that they have once they are read. Their scores stay, which do
    not depend on what else there
    is to find.

    It is the odds of a score, s / (1 - s), that are multiplied: they are the raw score of words
    over HALF.
    """
    places = ranked.places[:READ]
    scores = weights.times(ranked.scores, places)
    more = 1 + MORE * reader.near(places, AROUND)
    read = (scores * more / (1 - scores + scores * more)).astype(np.float32)
    order = ranking(read, places, ranked.scene)
    told = dict(zip(places.tolist(), read.tolist(), strict=True))
    return replace(ranked, places=np.concatenate([places[order], ranked.places[READ:]]), read=told)


def _windows(layout: Layout, places: Places, around: int) -> NDArray[np.int64]:
    """A row for each place, of the places in its window; its own where there is no neighbour."""
    columns = places[:, None] + np.arange(-around, around + 1)
    inside = np.clip(columns, 0, len(layout) - 1)
    same = (inside == columns) & (layout.thread[inside] == layout.thread[places, None])
    return np.where(same, inside, places[:, None])

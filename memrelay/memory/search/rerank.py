"""Reranks the best records of conversations by what reading them and their neighbors shows.

BM25 and vectors compare each record alone or a sum over neighbors. Reading also asks whether each
word of the query, or one with much the same meaning, occurs at all, whether a turn only asks, and
whether it answers a question that has the words. It stores nothing and runs no model.

The weights are those of a linear model of the log odds of a hit. benchmarks/recall/weights.py fits
them, and scores each conversation with the weights of the others (docs/recall.md).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from memrelay.memory.engine.row_metadata import contents
from memrelay.memory.search.embedding.near_words import Words, near_words, words_of
from memrelay.memory.search.granularities import NEIGHBORS, idf
from memrelay.memory.search.layout import Layout, Places
from memrelay.memory.search.results import Floats, Ranked, ScoreFactors, rank_order
from memrelay.memory.search.text.questions import closing_question_share, count_names
from memrelay.memory.search.text_retriever import TextScores
from memrelay.memory.search.vector_retriever import VectorScores

SKIMMED = 128  # best records by score from which those to read are chosen, by signals without texts
SKIM_SHARE = 0.7  # the share of these signals in the choice: near words make up for a part of them
READ = 48  # records whose texts are read
LONGEST = 2048  # bytes read of a record
# The amount that a signal of 1 adds to the log odds of a score.
WEIGHTS = {
    "window": -0.25,  # ln(1 + BM25) of the window, which the score counts as much as the record
    "segment": -0.33,  # the same for the segment
    "words": 0.5,  # the share of the query that the record has, or comes near to, from 0 to 1
    "near": 1.0,  # the same for the record with its neighbors
    "thread": 0.8,  # the best vector score of a record of the thread
    "question": -0.8,  # the share of the text that is a closing question
    "answer": 0.8,  # the share of the query in the question before a turn
    # For questions with several answers: the names in the text; 1 for the speaker that the query
    # names and -1 for others.
    "names": 0.1,
    "speaker": 0.1,
}
Signals = dict[str, Floats]


class QueryWords(NamedTuple):
    """The words of the query."""

    words: Words
    weights: Floats  # sum to 1


class Reader:
    """Reads the texts of records for one search, and of their neighbors.

    `by_meaning` is whether words of nearly the same meaning count, which the table has for English.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        layout: Layout,
        text: TextScores,
        vector: VectorScores | None,
        *,
        by_meaning: bool,
        wants_several: bool,
    ) -> None:
        self._connection, self._layout, self._text = connection, layout, text
        self._vector = vector
        self._by_meaning, self._wants_several = by_meaning, wants_several

    def skim(self, places: Places) -> Signals:
        """Return the signals of each place that need no texts, by the names in WEIGHTS."""
        _, window, segment = self._text.granularities
        signals = {"window": np.log1p(window[places]), "segment": np.log1p(segment[places])}
        if self._vector is not None:
            signals["thread"] = self._best_of_threads(places, self._vector.standalone)
        return signals

    def read(self, places: Places) -> Signals:
        """Return the other signals of each place."""
        columns = _windows(self._layout, places)
        there, at = np.unique(columns, return_inverse=True)
        at = at.reshape(columns.shape)
        texts = contents(self._connection, self._layout.row[there], LONGEST)
        own, before = at[:, NEIGHBORS], at[:, NEIGHBORS - 1]
        asking = np.zeros(len(texts), np.float32)
        for one in np.union1d(own, before):
            asking[one] = closing_question_share(texts[one])
        signals = {
            "question": asking[own] * (self._layout.source[places] >= 0),
            "answer": (asking[before] > 0) * (before != own) * self._share(there[before]),
        }
        if self._by_meaning:
            by_word, weights = self._nearness(texts), self._query_words.weights
            signals["words"] = weights @ by_word[:, own]
            signals["near"] = weights @ by_word[:, at].max(axis=2)
        if self._wants_several:
            signals["names"] = np.array([count_names(texts[one]) for one in own], np.float32)
            if len(self._text.speakers) == 1:
                is_speaker = self._layout.source[places] == self._text.speakers[0]
                signals["speaker"] = np.where(is_speaker, np.float32(1), np.float32(-1))
        return signals

    def _share(self, places: Places) -> Floats:
        """Return the BM25 of places as a share of the weights of the query."""
        weights = sum(term.weight(len(self._layout)) for term in self._text.all_terms)
        share: Floats = self._text.granularities[0][places] / np.float32(max(weights, 1e-6))
        return share

    def _best_of_threads(self, places: Places, scores: Floats) -> Floats:
        """Return the highest score in the thread of each place. Places are sorted by thread."""
        threads, at = np.unique(self._layout.thread[places], return_inverse=True)
        first = np.searchsorted(self._layout.thread, threads)
        end = np.searchsorted(self._layout.thread, threads, side="right")
        best = [scores[begin:stop].max() for begin, stop in zip(first, end, strict=True)]
        found: Floats = np.array(best, np.float32)[at]
        return found

    def _nearness(self, texts: Sequence[str]) -> Floats:
        """Return a row per word of the query: its nearness to the nearest word of each text."""
        near = near_words()
        found = list(map(near.read, texts))
        by_word = near.nearness(self._query_words.words, np.concatenate([near.numbers(()), *found]))
        table = np.zeros((len(by_word), len(texts)), np.float32)
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
        weights: dict[str, float] = {}
        for term in self._text.all_terms:
            worth = term.emphasis * idf(len(self._layout), min(term.records, len(self._layout)))
            weights |= {
                word: worth
                for word in words_of(term.meant or term.text)
                if word not in self._text.names
            }
        worths = np.fromiter(weights.values(), np.float32)
        return QueryWords(
            near_words().numbers(weights), worths / np.float32(max(worths.sum(), 1e-6))
        )


def rerank(ranked: Ranked, reader: Reader, factors: ScoreFactors) -> Ranked:
    """Reorder the first records by their scores after reading. The reported scores stay.

    The scores must not depend on which other records exist. A signal multiplies the odds of a
    score, s / (1 - s), which for words is the raw score divided by a constant.
    """
    places = ranked.places[:SKIMMED]
    scores = factors.multiply(ranked.scores, places)
    skimmed = _weigh(reader.skim(places))
    chosen_by = add_log_odds(scores, SKIM_SHARE * _total(skimmed))
    order = rank_order(chosen_by, places, ranked.context)
    first = order[:READ]
    changes = {name: change[first] for name, change in skimmed.items()}
    changes |= _weigh(reader.read(places[first]))
    read = add_log_odds(scores[first], _total(changes))
    best = places[first][rank_order(read, places[first], ranked.context)]
    return replace(
        ranked,
        places=np.concatenate([best, places[order[READ:]], ranked.places[SKIMMED:]]),
        reranked=dict(zip(places[first].tolist(), read.tolist(), strict=True)),
        signals=changes,
    )


def _weigh(signals: Signals) -> Signals:
    """Return what each signal adds to the log odds."""
    return {name: WEIGHTS[name] * signal for name, signal in signals.items()}


def _total(changes: Signals) -> Floats:
    total: Floats = np.sum(list(changes.values()), axis=0)
    return total


def add_log_odds(scores: Floats, change: Floats) -> Floats:
    """Return the scores after a change of their log odds."""
    more = np.exp(change)
    changed: Floats = (scores * more / (1 - scores + scores * more)).astype(np.float32)
    return changed


def take_turns(ranked: Ranked, speakers: Sequence[int]) -> Ranked:
    """Return the result with the turns of each of these speakers by turns, in their order.

    A question that names several speakers has an answer of each.
    """
    source = ranked.context.layout.source[ranked.places]
    rank = np.zeros(len(source), np.int64)
    for some in (*(source == one for one in speakers), ~np.isin(source, speakers)):
        rank[some] = np.arange(np.count_nonzero(some))
    return replace(ranked, places=ranked.places[np.argsort(rank, kind="stable")])


def _windows(layout: Layout, places: Places) -> NDArray[np.int64]:
    """Return a row per place with the places of its window. Missing neighbors are itself."""
    columns = places[:, None] + np.arange(-NEIGHBORS, NEIGHBORS + 1)
    inside = np.clip(columns, 0, len(layout) - 1)
    same = (inside == columns) & (layout.thread[inside] == layout.thread[places, None])
    return np.where(same, inside, places[:, None])

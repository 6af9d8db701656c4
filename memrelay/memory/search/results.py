"""The context and the results of one ranked search, with everything needed to explain it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.engine.row_arrays import Rows
from memrelay.memory.engine.vocabulary import Vocabulary
from memrelay.memory.search.granularities import Granularities
from memrelay.memory.search.layout import Layout, Places

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Factor = Callable[[Places], Floats]  # above 0 and at most 1
# factors are looked up for at least this many records
MIN_INITIAL_POOL = 32


@dataclass(frozen=True, slots=True)
class SearchContext:
    """The store as seen by this transaction, and the records that may be found.

    `expired` lists rows that the vocabulary still holds and the layout no longer has.
    """

    layout: Layout
    granularities: Granularities
    vocabulary: Vocabulary
    allowed: NDArray[np.bool_] | None  # by place: passes all filters and exclusions; None: all
    expired: Rows
    passing: NDArray[np.bool_] | None = None  # by place: passes the filters; set by explain only


@dataclass(frozen=True, slots=True)
class RetrieverScores:
    """Scores of one retriever, by place: 0 for a record that the retriever does not find.

    Records that are not allowed may have a score.
    """

    arm: str  # "text" or "vector"
    raw: Floats  # in the retriever's own measure: BM25, a cosine
    score: Floats  # from 0 to 1, comparable between queries


@dataclass(frozen=True, slots=True)
class Ranked:
    """A ranked result, best first."""

    places: Places
    scores: Floats  # of all places; boosts are applied only where they could change the result
    arms: tuple[RetrieverScores, ...]
    context: SearchContext
    missing_retriever: str = ""  # why a retriever is missing
    base: Floats | None = None  # scores before the date boost; None if the query names no date
    factors: Mapping[str, Floats] = field(default_factory=dict)  # by boost name and place
    reranked: Mapping[int, float] = field(default_factory=dict)  # place -> score after reranking
    # what each signal of reading added to the log odds of a score, in the order of `reranked`
    signals: Mapping[str, Floats] = field(default_factory=dict)
    compared: str = ""  # the text that vectors are compared with

    def scores_by_row(self) -> dict[int, float]:
        """Return row -> score, best first."""
        rows, scores = self.context.layout.row[self.places], self.scores[self.places]
        return dict(zip(rows.tolist(), scores.tolist(), strict=True))

    def arm_scores_by_row(self) -> dict[int, dict[str, float]]:
        """Return row -> retriever name -> score."""
        rows = self.context.layout.row[self.places]
        named = [(arm.arm, arm.score[self.places]) for arm in self.arms]
        return {
            row: {name: float(scores[at]) for name, scores in named}
            for at, row in enumerate(rows.tolist())
        }


def candidate_places(scores: Floats, context: SearchContext) -> Places:
    """Return the places that have a score and are allowed."""
    wanted = scores > 0
    return np.flatnonzero(wanted if context.allowed is None else wanted & context.allowed)


def best_places(
    scores: Floats | Doubles,
    places: Places,
    context: SearchContext,
    limit: int,
    *,
    oldest_first: bool = False,
) -> Places:
    """Return at most `limit` of the places, best first, the newest of equal ones first.

    With `oldest_first`, the oldest of equal ones comes first, as in FTS5.
    """
    if len(places) > limit > 0:
        least = np.partition(scores[places], -limit)[-limit]
        places = places[scores[places] >= least]
    return places[rank_order(scores[places], places, context, oldest_first=oldest_first)][:limit]


def rank_order(
    worth: Floats | Doubles, places: Places, context: SearchContext, *, oldest_first: bool = False
) -> NDArray[np.intp]:
    """Return the indexes that sort places by worth, descending, then by age."""
    rows = context.layout.row[places]
    return np.lexsort((rows if oldest_first else -rows, -worth))


def initial_pool_size(limit: int) -> int:
    """Return the number of best records whose factors are looked up first."""
    return max(2 * limit, MIN_INITIAL_POOL)


class ScoreFactors:
    """Factors that multiply the scores of one search, by name.

    Factors are looked up only for records that can be among the best.
    """

    def __init__(self, factors: Mapping[str, Factor], places: int) -> None:
        self._factors = factors
        self._by_place = {name: np.ones(places, np.float32) for name in factors}
        self._known = np.zeros(places if factors else 0, bool)

    def load(self, places: Places) -> None:
        """Look up the factors of these places, unless they are known."""
        if not self._factors:
            return
        new = places[~self._known[places]]
        self._known[new] = True
        for name, factor in self._factors.items() if len(new) else ():
            self._by_place[name][new] = factor(new)

    def multiply(self, scores: Floats, places: Places) -> Floats:
        """Return the scores of these places, multiplied by their factors."""
        self.load(places)
        found = scores[places]
        for by_place in self._by_place.values():
            found = found * by_place[places]
        return found

    def select_best(self, ranked: Ranked, limit: int) -> Ranked:
        """Return the best `limit` records by score times factors, among all candidates.

        `ranked` holds the best records by score: at least `initial_pool_size(limit)` of them.
        Factors are at most 1. So no record whose plain score is below the last of the best
        weighted scores can enter the result.
        """
        if not self._factors:
            return replace(ranked, places=ranked.places[:limit])
        scores, context, order = ranked.scores, ranked.context, ranked.places
        while True:
            weighed = self.multiply(scores, order)
            least = np.partition(weighed, -limit)[-limit] if len(order) >= limit > 0 else -np.inf
            if not len(order) or limit < 1 or least > scores[order[-1]]:
                break
            more = best_places(scores, candidate_places(scores, context), context, 2 * len(order))
            if len(more) == len(order):
                break
            order = more
        return replace(ranked, places=order[rank_order(weighed, order, context)[: max(limit, 0)]])

    def apply_all(self, ranked: Ranked) -> Ranked:
        """Return the result with its scores multiplied by the factors."""
        if not self._factors:
            return ranked
        scores = ranked.scores.copy()
        for by_place in self._by_place.values():
            scores *= by_place
        return replace(ranked, scores=scores, factors=self._by_place)

"""What a ranked search found, and all that it was decided by, so that it can be explained."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.search.granularities import Granularities
from memrelay.memory.search.layout import Layout, Places
from memrelay.memory.sqlite.rows import Rows
from memrelay.memory.sqlite.vocabulary import Vocabulary

# What an arm of a search works on: the store as it is in this transaction, and which of its
# records may be found.

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SearchContext:
    """For one search."""

    layout: Layout
    granularities: Granularities
    vocabulary: Vocabulary
    allowed: NDArray[np.bool_] | None  # by place: what passes all filters; None for everything
    expired: Rows  # what the vocabulary still has, and the layout no more
    passing: NDArray[np.bool_] | None = (
        None  # what passes the filters alone; only where it is explained
    )


@dataclass(frozen=True, slots=True)
class Found:
    """What an arm makes of a query: scores by place, 0 for what it does not find. What is not
    allowed may have some."""

    arm: str  # "text"
    raw: Floats  # in the arm's own measure
    score: Floats  # from 0 to 1, with the same meaning from query to query


Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ranked:
    """Best first."""

    places: Places
    scores: Floats  # of all places; with boosts, of those that could be among the best
    arms: tuple[Found, ...]
    scene: SearchContext
    without: str = ""  # why an arm is missing
    base: Floats | None = (
        None  # the scores before a time that the question names counted; None where it names none
    )
    factors: Mapping[str, Floats] = field(default_factory=dict)  # by boost and place
    read: Mapping[int, float] = field(
        default_factory=dict
    )  # place -> the score by which it stands where it does
    raised: Mapping[int, float] = field(
        default_factory=dict
    )  # place -> the score that put it before others of more threads

    def rows(self) -> dict[int, float]:
        """Row -> score, best first."""
        rows, scores = self.scene.layout.row[self.places], self.scores[self.places]
        return dict(zip(rows.tolist(), scores.tolist(), strict=True))

    def shares(self) -> dict[int, dict[str, float]]:
        """Row -> what each arm says of it."""
        rows, named = (
            self.scene.layout.row[self.places],
            [(arm.arm, arm.score[self.places]) for arm in self.arms],
        )
        return {
            row: {name: float(scores[at]) for name, scores in named}
            for at, row in enumerate(rows.tolist())
        }


def candidates(scores: Floats, scene: SearchContext) -> Places:
    """What has a score and is allowed."""
    wanted = scores > 0
    return np.flatnonzero(wanted if scene.allowed is None else wanted & scene.allowed)


def best(scores: Floats | Doubles, places: Places, scene: SearchContext, limit: int) -> Places:
    """Of these places the best first, of equal ones the oldest; `limit` at most."""
    if len(places) > limit > 0:
        least = np.partition(scores[places], -limit)[-limit]
        places = places[scores[places] >= least]
    return places[ranking(scores[places], places, scene)][:limit]


def ranking(worth: Floats | Doubles, places: Places, scene: SearchContext) -> NDArray[np.intp]:
    """The order of these places: first what is worth most, of equal ones the oldest."""
    return np.lexsort((scene.layout.row[places], -worth))


# What the scores of a ranked search are multiplied by, each looked up for the records alone that
# can be among the best.

Factor = Callable[[Places], Floats]  # at most 1, and above 0
FIRST = 32  # how many are looked up at least


def first_looked_up(limit: int) -> int:
    """How many of the best by score are looked up at first."""
    return max(2 * limit, FIRST)


class Weights:
    """The factors of one search, by name."""

    def __init__(self, factors: Mapping[str, Factor], places: int) -> None:
        """Of a store of so many records; nothing is looked up yet."""
        self._factors = factors
        self._by_place = {name: np.ones(places, np.float32) for name in factors}
        self._known = np.zeros(places if factors else 0, bool)

    def look(self, places: Places) -> None:
        """The factors of these are known from now on."""
        if not self._factors:
            return
        new = places[~self._known[places]]
        self._known[new] = True
        for name, factor in self._factors.items() if len(new) else ():
            self._by_place[name][new] = factor(new)

    def times(self, scores: Floats, places: Places) -> Floats:
        """Scores of these places, with their factors."""
        self.look(places)
        found = scores[places]
        for by_place in self._by_place.values():
            found = found * by_place[places]
        return found

    def best(self, ranked: Ranked, limit: int) -> Ranked:
        """The best `limit` by score and factors, of all candidates.

        `ranked` has the first by score: so many as `first_looked_up` says, or more.

        Factors are at most 1, so who comes after a record that has the last of the best scores
        without them is left out.
        """
        if not self._factors:
            return replace(ranked, places=ranked.places[:limit])
        scores, scene, order = ranked.scores, ranked.scene, ranked.places
        while True:
            weighed = self.times(scores, order)
            least = np.partition(weighed, -limit)[-limit] if len(order) >= limit > 0 else -np.inf
            if not len(order) or limit < 1 or least > scores[order[-1]]:
                break
            more = best(scores, candidates(scores, scene), scene, 2 * len(order))
            if len(more) == len(order):
                break
            order = more
        return replace(ranked, places=order[ranking(weighed, order, scene)[: max(limit, 0)]])

    def applied(self, ranked: Ranked) -> Ranked:
        """With the scores as the factors have made them."""
        if not self._factors:
            return ranked
        scores = ranked.scores.copy()
        for by_place in self._by_place.values():
            scores *= by_place
        return replace(ranked, scores=scores, factors=self._by_place)

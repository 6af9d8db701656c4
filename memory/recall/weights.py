"""What the scores of a ranked search are multiplied by, each looked up for the records alone that
can be among the best."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from memory.recall.layout import Places
from memory.recall.ranked import Ranked, best, candidates, ranking
from memory.recall.scene import Floats

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

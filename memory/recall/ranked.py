"""What a ranked search found, and all that it was decided by, so that it can be explained."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from memory.recall.layout import Places
from memory.recall.scene import Floats, Found, Scene

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ranked:
    """Best first."""

    places: Places
    scores: Floats  # of all places; with boosts, of those that could be among the best
    arms: tuple[Found, ...]
    scene: Scene
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


def candidates(scores: Floats, scene: Scene) -> Places:
    """What has a score and is allowed."""
    wanted = scores > 0
    return np.flatnonzero(wanted if scene.allowed is None else wanted & scene.allowed)


def best(scores: Floats | Doubles, places: Places, scene: Scene, limit: int) -> Places:
    """Of these places the best first, of equal ones the oldest; `limit` at most."""
    if len(places) > limit > 0:
        least = np.partition(scores[places], -limit)[-limit]
        places = places[scores[places] >= least]
    return places[ranking(scores[places], places, scene)][:limit]


def ranking(worth: Floats | Doubles, places: Places, scene: Scene) -> NDArray[np.intp]:
    """The order of these places: first what is worth most, of equal ones the oldest."""
    return np.lexsort((scene.layout.row[places], -worth))

"""What an arm of a search works on: the store as it is in this transaction, and which of its
records may be found."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory.recall.granularities import Granularities
from memory.recall.layout import Layout
from memory.sqlite.row_numbers import Rows
from memory.sqlite.vocabulary import Vocabulary

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Scene:
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

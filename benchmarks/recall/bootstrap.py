"""Confidence intervals of a mean by the percentile bootstrap (Efron 1979)."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

ROUNDS = 2000
SEED = 2026


def interval(values: Sequence[float], share: float = 0.95, seed: int = SEED) -> tuple[float, float]:
    """Return the bounds that contain `share` of the resampled means. Equal values and seeds give
    equal bounds."""
    means = np.asarray(values, float)[_draw(len(values), seed)].mean(axis=1)
    low, high = np.quantile(means, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


@lru_cache(maxsize=8)
def _draw(count: int, seed: int) -> NDArray[np.int32]:
    """Return the places of the values in each round. All measures of a question share them."""
    return np.random.default_rng(seed).integers(count, size=(ROUNDS, count), dtype=np.int32)

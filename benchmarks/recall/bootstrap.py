"""Confidence intervals of a mean by the percentile bootstrap (Efron 1979)."""

from collections.abc import Sequence

import numpy as np

ROUNDS = 2000
SEED = 2026


def interval(values: Sequence[float], share: float = 0.95, seed: int = SEED) -> tuple[float, float]:
    """Return the bounds that contain `share` of the resampled means. Equal values and seeds give
    equal bounds."""
    drawn = np.random.default_rng(seed).integers(
        len(values), size=(ROUNDS, len(values)), dtype=np.int32
    )
    means = np.asarray(values, float)[drawn].mean(axis=1)
    low, high = np.quantile(means, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)

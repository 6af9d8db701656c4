"""How far a mean might lie elsewhere, had other questions been drawn: the percentile bootstrap
(Efron 1979)."""

from collections.abc import Sequence

import numpy as np

ROUNDS = 2000
SEED = 2026


def interval(values: Sequence[float], share: float = 0.95, seed: int = SEED) -> tuple[float, float]:
    """(low, high) between which `share` of the means of drawn-again questions lie; the same for the
    same values and seed."""
    drawn = np.random.default_rng(seed).integers(
        len(values), size=(ROUNDS, len(values)), dtype=np.int32
    )
    means = np.asarray(values, float)[drawn].mean(axis=1)
    low, high = np.quantile(means, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)

"""Scores of cosines, apart from the embedder's protocol because it needs numpy."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.search.embedding.embedder import Calibration


def calibrate(cosines: NDArray[np.float32], calibration: Calibration) -> NDArray[np.float32]:
    """Return the scores at these cosines, in a third of the time of `np.interp`.

    The curve is a sum of ramps, one for each change of its slope.
    """
    ends, scores = calibration.cosines, calibration.scores
    capped = np.minimum(cosines, np.float32(ends[-1]))
    found = np.full_like(capped, scores[0])
    before = 0.0
    for (start, end), (low, high) in zip(pairwise(ends), pairwise(scores), strict=True):
        slope = (high - low) / (end - start)
        found += np.maximum(capped - np.float32(start), 0) * np.float32(slope - before)
        before = slope
    return found

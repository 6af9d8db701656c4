"""Rows of unit length, apart from the embedder's protocol because it needs numpy."""

import numpy as np
from numpy.typing import NDArray


def unit_rows(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the rows scaled to unit length; a row of zeros stays zeros."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.ascontiguousarray(
        matrix / np.maximum(lengths, np.finfo(np.float32).tiny), dtype=np.float32
    )

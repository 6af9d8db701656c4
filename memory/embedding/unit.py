"""Vectors of unit length."""

import numpy as np
from numpy.typing import NDArray


def unit_rows(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each row by its length; a row of zeros stays one."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.ascontiguousarray(
        matrix / np.maximum(lengths, np.finfo(np.float32).tiny), dtype=np.float32
    )

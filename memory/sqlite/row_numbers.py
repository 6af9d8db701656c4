"""Numbers of rows, many at once, as they come out of SQLite: a text that group_concat makes costs a
tenth of so many rows."""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def numbers(text: str | None) -> Rows:
    """What group_concat made of integers."""
    return np.fromstring(text or "", dtype=np.int64, sep=",")

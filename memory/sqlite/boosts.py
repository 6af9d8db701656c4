"""What boosts go by: when records were made and how important they are, for rows in any order."""

import apsw
import numpy as np
from numpy.typing import NDArray

from memory.sqlite.by_row import values_by_row
from memory.sqlite.row_numbers import Rows

VALUE = {
    "recency": "created_at",
    "importance": "CASE WHEN json_valid(data) AND json_type(data, '$.importance') IN ('integer', 'real') "
    "THEN min(max(json_extract(data, '$.importance'), 0.0), 1.0) END",
}


def boost_values(connection: apsw.Connection, name: str, rows: Rows) -> NDArray[np.float64]:
    """Of each row its Unix ms for "recency", its number of 0 to 1 for "importance"; NaN where there
    is none."""
    found = values_by_row(connection, VALUE[name], rows)
    return np.array([np.nan if value is None else value for value in found], np.float64)

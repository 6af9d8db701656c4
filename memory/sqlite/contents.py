"""What records say, for rows in any order."""

import apsw

from memory.sqlite.by_row import values_by_row
from memory.sqlite.row_numbers import Rows

CONTENT = "CASE WHEN octet_length(content) <= ?2 THEN content ELSE '' END"


def contents(connection: apsw.Connection, rows: Rows, longest: int) -> list[str]:
    """Of each row its content; "" for one that is longer than so many bytes, which is not read, and
    where there is none."""
    return list(values_by_row(connection, CONTENT, rows, longest))

"""What records have, for rows in any order."""

from collections.abc import Iterator
from typing import Any

import apsw
import orjson

from memory.sqlite.row_numbers import Rows

VALUES = "SELECT {value} FROM json_each(?1) AS wanted LEFT JOIN records ON row = wanted.value ORDER BY wanted.key"


def values_by_row(
    connection: apsw.Connection, value: str, rows: Rows, *given: Any
) -> Iterator[Any]:
    """Of each row what the SQL expression `value` says; `given` are its ?2 and so on. All columns
    are NULL for no record."""
    found = connection.execute(
        VALUES.format(value=value), (orjson.dumps(rows.tolist()).decode(), *given)
    )
    return (one for (one,) in found)

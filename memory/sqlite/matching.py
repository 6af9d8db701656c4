"""What one full-text index finds, best first, by FTS5's own relevance (docs/search.md, "The
order").

SQLite keeps the best while FTS5 ranks. FTS5, asked to sort by itself (`ORDER BY rank`), sorts all
that it finds: that takes
twice the time for a few, four times for a million, and memory for each of them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import apsw

from memory.record import Record, record_of
from memory.sqlite.filters import where

# CROSS: the words are found once, not once for each record
RECORDS = " CROSS JOIN records AS r ON r.row = f.rowid"
BEST = "SELECT f.rowid AS row, bm25({index}) AS rank FROM {index} AS f{records}{which} ORDER BY 2, 1 LIMIT ?"
FOUND = (
    f"SELECT r.row, {', '.join('r.' + name for name in Record._fields[:-1])}, -best.rank "
    f"FROM ({BEST}) AS best CROSS JOIN records AS r ON r.row = best.row"
)  # one after the other, as they are sorted


def best_matches(
    connection: apsw.Connection,
    index: str,
    match: str,
    conditions: tuple[Sequence[str], Sequence[Any]],
    limit: int,
) -> Iterator[tuple[int, Record]]:
    """(row, record with its score) of what matches an FTS5 expression and meets conditions on
    `records AS r`, with values."""
    clauses, values = conditions
    sql = FOUND.format(
        index=index, records=RECORDS if clauses else "", which=where(f"{index} MATCH ?", *clauses)
    )
    return (
        (row, record_of(found)) for row, *found in connection.execute(sql, (match, *values, limit))
    )

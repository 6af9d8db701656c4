"""Read what ranking needs of every record except its text, in bulk into arrays."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apsw
import numpy as np
import orjson
from numpy.typing import NDArray

from memrelay.memory.engine.row_arrays import Rows, numbers

IS_NEW = "({row} > ? OR {row} IN (SELECT value FROM json_each(?)))"
WIDTHS_SQL = f"SELECT DISTINCT length(sz) FROM {{index}}_docsize WHERE {IS_NEW.format(row='id')}"
SIZES_SQL = (
    "SELECT group_concat(id), group_concat(hex(sz), '') FROM {index}_docsize "
    f"WHERE {IS_NEW.format(row='id')} AND length(sz) = ?"
)
SELECT_TURNS = (
    "SELECT thread, json_group_array(row), json_group_array(seq), json_group_array(source) "
    "FROM records"
)
# Uses only the index on threads.
ALL_THREADS = f"{SELECT_TURNS} WHERE thread IS NOT NULL GROUP BY thread"
# Uses only the rows.
CHANGED_THREADS = (
    f"{SELECT_TURNS} NOT INDEXED WHERE thread IS NOT NULL AND {IS_NEW.format(row='row')} "
    "GROUP BY thread"
)


class Since(NamedTuple):
    """Selects the records to read: those after row `row`, and the remaining ones of `changed`."""

    # 0 selects all records.
    row: int = 0
    changed: tuple[int, ...] = ()

    @property
    def values(self) -> tuple[int, str]:
        """Return the values for the placeholders of IS_NEW."""
        return self.row, orjson.dumps(self.changed).decode()


class Turns(NamedTuple):
    """Some turns of a thread: parallel lists of rows, positions (`seq`) and speakers."""

    thread: str
    rows: list[int]
    seqs: list[int]
    sources: list[str]


class RowMetadata(NamedTuple):
    """Records and their lengths in words, ascending by row. Records without a thread are in no
    `threads`.
    """

    rows: Rows
    lengths: NDArray[np.int64]
    # Lengths as FTS5 counts them for its ranking.
    tokens: NDArray[np.int64]
    threads: list[Turns]


NO_ROWS = RowMetadata(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), [])


def read_row_metadata(connection: apsw.Connection, since: Since) -> RowMetadata:
    """Read the row metadata. The full-text indexes must be in sync with the records."""
    rows, tokens = _sizes(connection, "records_fts", since)
    threads = connection.execute(
        CHANGED_THREADS if since.row else ALL_THREADS, since.values if since.row else ()
    )
    lengths = _lengths(connection, since, rows, tokens)
    return RowMetadata(
        rows, lengths, tokens, [Turns(name, *map(orjson.loads, lists)) for name, *lists in threads]
    )


def rows_with(connection: apsw.Connection, where: str, values: Iterable[Any], since: Since) -> Rows:
    """Return the ascending rows that meet a condition on `records AS r`."""
    sql = "SELECT group_concat(r.row) FROM records AS r"
    if since.row:
        found = connection.execute(
            f"{sql} NOT INDEXED WHERE {IS_NEW.format(row='r.row')} AND {where}",
            (*since.values, *values),
        )
    else:
        found = connection.execute(f"{sql} WHERE {where}", tuple(values))
    return np.sort(numbers(found.get))


def _lengths(
    connection: apsw.Connection, since: Since, rows: Rows, tokens: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the words in each row. Chinese is counted by its parts, where each character is a
    word.
    """
    with_parts, part_lengths = _sizes(connection, "parts_fts", since)
    at, lengths = np.searchsorted(rows, with_parts), tokens.copy()
    lengths[at] = np.maximum(lengths[at], part_lengths)
    return lengths


def _sizes(connection: apsw.Connection, index: str, since: Since) -> tuple[Rows, NDArray[np.int64]]:
    """Return (rows, tokens in the longest column of each), from the data that FTS5 keeps for
    ranking.
    """
    rows, lengths = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    widths: list[Any] = connection.execute(WIDTHS_SQL.format(index=index), since.values).fetchall()
    for (width,) in widths:
        ids, sizes = connection.execute(SIZES_SQL.format(index=index), (*since.values, width)).get
        rows.append(numbers(ids))
        lengths.append(
            _largest_varints(np.frombuffer(bytes.fromhex(sizes), np.uint8).reshape(-1, width))
        )
    all_rows = np.concatenate(rows)
    order = np.argsort(all_rows, kind="stable")
    return all_rows[order], np.concatenate(lengths)[order]


def _largest_varints(encoded: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the largest SQLite varint of each row.

    Each varint is the number of tokens in a column. The varints of a record are concatenated.
    """
    largest = np.zeros(len(encoded), np.int64)
    value = np.zeros(len(encoded), np.int64)
    for byte in encoded.T:
        value = value << 7 | (byte & 0x7F)
        ends = byte < 0x80
        largest[ends] = np.maximum(largest[ends], value[ends])
        value[ends] = 0
    return largest


# Values of records, for rows in any order.

SELECT_VALUES = (
    "SELECT {value} FROM json_each(?1) AS wanted LEFT JOIN records ON row = wanted.value "
    "ORDER BY wanted.key"
)


def values_by_row(
    connection: apsw.Connection, value: str, rows: Rows, *given: Any
) -> Iterator[Any]:
    """Yield the value of an SQL expression for each row.

    `given` are the values of ?2 and following. All columns of a missing record are NULL.
    """
    found = connection.execute(
        SELECT_VALUES.format(value=value), (orjson.dumps(rows.tolist()).decode(), *given)
    )
    return (one for (one,) in found)


# Boosts use the age and importance of records.

BOOST_COLUMNS = {
    "recency": "created_at",
    "importance": "CASE WHEN json_valid(data) "
    "AND json_type(data, '$.importance') IN ('integer', 'real') "
    "THEN min(max(json_extract(data, '$.importance'), 0.0), 1.0) END",
}


def boost_values(connection: apsw.Connection, name: str, rows: Rows) -> NDArray[np.float64]:
    """Return the value of a boost for each row, NaN for none.

    It is Unix ms for "recency" and 0 to 1 for "importance".
    """
    found = values_by_row(connection, BOOST_COLUMNS[name], rows)
    return np.array([np.nan if value is None else value for value in found], np.float64)


BOUNDED_CONTENT = "CASE WHEN octet_length(content) <= ?2 THEN content ELSE '' END"


def contents(connection: apsw.Connection, rows: Rows, max_bytes: int) -> list[str]:
    """Return the content of each row, "" for missing records and for contents of more than
    `max_bytes` bytes.
    """
    return list(values_by_row(connection, BOUNDED_CONTENT, rows, max_bytes))

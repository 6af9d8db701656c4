"""The outline of a store: what ranking must know of every record, without its text. Read in bulk,
into arrays."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apsw
import numpy as np
import orjson
from numpy.typing import NDArray

from memrelay.memory.sqlite.rows import Rows, numbers

NEW = "({row} > ? OR {row} IN (SELECT value FROM json_each(?)))"
WIDTHS = f"SELECT DISTINCT length(sz) FROM {{index}}_docsize WHERE {NEW.format(row='id')}"
SIZES = (
    f"SELECT group_concat(id), group_concat(hex(sz), '') FROM {{index}}_docsize WHERE {NEW.format(row='id')} "
    "AND length(sz) = ?"
)
LISTS = "SELECT thread, json_group_array(row), json_group_array(seq), json_group_array(source) FROM records"
THREADS = f"{LISTS} WHERE thread IS NOT NULL GROUP BY thread"  # by their index alone
# by row
SOME_THREADS = (
    f"{LISTS} NOT INDEXED WHERE thread IS NOT NULL AND {NEW.format(row='row')} GROUP BY thread"
)


class Since(NamedTuple):
    """Which records are to be read: those after row `row`, and those of `changed` that are still
    there."""

    row: int = 0  # 0: all of them
    changed: tuple[int, ...] = ()

    @property
    def values(self) -> tuple[int, str]:
        """For the placeholders of NEW."""
        return self.row, orjson.dumps(self.changed).decode()


class Turns(NamedTuple):
    """Some turns of a thread: their rows, places (`seq`) and speakers, side by side."""

    thread: str
    rows: list[int]
    seqs: list[int]
    sources: list[str]


class Outline(NamedTuple):
    """Records and their lengths in words, ascending by row; records that are in none of `threads`
    have none."""

    rows: Rows
    lengths: NDArray[np.int64]
    tokens: NDArray[np.int64]  # their lengths to FTS5: what it ranks their contents by
    threads: list[Turns]


NOTHING = Outline(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), [])


def read_outline(connection: apsw.Connection, since: Since) -> Outline:
    """The index must be in step with the records."""
    rows, tokens = _sizes(connection, "records_fts", since)
    threads = connection.execute(
        SOME_THREADS if since.row else THREADS, since.values if since.row else ()
    )
    lengths = _lengths(connection, since, rows, tokens)
    return Outline(
        rows, lengths, tokens, [Turns(name, *map(orjson.loads, lists)) for name, *lists in threads]
    )


def rows_with(connection: apsw.Connection, where: str, values: Iterable[Any], since: Since) -> Rows:
    """The rows, ascending, for which a condition on `records AS r` holds."""
    sql = "SELECT group_concat(r.row) FROM records AS r"
    if since.row:
        found = connection.execute(
            f"{sql} NOT INDEXED WHERE {NEW.format(row='r.row')} AND {where}",
            (*since.values, *values),
        )
    else:
        found = connection.execute(f"{sql} WHERE {where}", tuple(values))
    return np.sort(numbers(found.get))


def _lengths(
    connection: apsw.Connection, since: Since, rows: Rows, tokens: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Words in each of the rows. Chinese is long in its parts only: there a letter is a word."""
    with_parts, longest = _sizes(connection, "parts_fts", since)
    at, lengths = np.searchsorted(rows, with_parts), tokens.copy()
    lengths[at] = np.maximum(lengths[at], longest)
    return lengths


def _sizes(connection: apsw.Connection, index: str, since: Since) -> tuple[Rows, NDArray[np.int64]]:
    """(rows, tokens in the longest column of each), from what FTS5 keeps for its own ranking."""
    rows, lengths = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    widths: list[Any] = connection.execute(WIDTHS.format(index=index), since.values).fetchall()
    for (width,) in widths:
        ids, sizes = connection.execute(SIZES.format(index=index), (*since.values, width)).get
        rows.append(numbers(ids))
        lengths.append(
            _largest_varints(np.frombuffer(bytes.fromhex(sizes), np.uint8).reshape(-1, width))
        )
    together = np.concatenate(rows)
    order = np.argsort(together, kind="stable")
    return together[order], np.concatenate(lengths)[order]


def _largest_varints(encoded: NDArray[np.uint8]) -> NDArray[np.int64]:
    """A column of the index has its number of tokens as SQLite's varint; those of a record stand
    one after the other."""
    largest = np.zeros(len(encoded), np.int64)
    value = np.zeros(len(encoded), np.int64)
    for byte in encoded.T:
        value = value << 7 | (byte & 0x7F)
        ends = byte < 0x80
        largest[ends] = np.maximum(largest[ends], value[ends])
        value[ends] = 0
    return largest


# What records have, for rows in any order.

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


# What boosts go by: when records were made and how important they are, for rows in any order.

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


# What records say, for rows in any order.

CONTENT = "CASE WHEN octet_length(content) <= ?2 THEN content ELSE '' END"


def contents(connection: apsw.Connection, rows: Rows, longest: int) -> list[str]:
    """Of each row its content; "" for one that is longer than so many bytes, which is not read, and
    where there is none."""
    return list(values_by_row(connection, CONTENT, rows, longest))

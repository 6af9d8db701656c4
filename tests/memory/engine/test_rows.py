"""Bulk inserts: every row arrives once, in order and under its number."""

import apsw
import pytest

from memrelay.memory.engine.rows import TOGETHER, RowInsert

COUNTS = pytest.mark.parametrize(
    "count", [0, 1, TOGETHER - 1, TOGETHER, TOGETHER + 1, 3 * TOGETHER + 5]
)
PAIRS = RowInsert("pairs", "left, right")
NUMBERED = RowInsert("pairs", "left, right", "number")


@pytest.fixture
def connection() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE pairs(number INTEGER PRIMARY KEY, left UNIQUE, right)")
    return connection


def pairs(connection: apsw.Connection) -> list[tuple[int, int, str]]:
    return list(connection.execute("SELECT number, left, right FROM pairs ORDER BY number"))


def rows(first: int, count: int) -> list[tuple[int, int, str]]:
    return [(number, number, str(number)) for number in range(first, first + count)]


@COUNTS
def test_all_rows_are_inserted_in_order(connection: apsw.Connection, count: int) -> None:
    wanted = rows(1, count)

    PAIRS.run(connection, [row[1:] for row in wanted])

    assert pairs(connection) == wanted


@COUNTS
@pytest.mark.parametrize("first", [1, 8], ids=["after the last", "after a gap"])
def test_rows_keep_their_given_numbers(connection: apsw.Connection, first: int, count: int) -> None:
    wanted = rows(first, count)

    NUMBERED.run(connection, wanted)

    assert pairs(connection) == wanted


def test_the_number_of_a_deleted_row_is_not_reused(
    connection: apsw.Connection,
) -> None:
    NUMBERED.run(connection, rows(1, 3))
    connection.execute("DELETE FROM pairs WHERE number = 3")

    NUMBERED.run(connection, rows(4, 2 * TOGETHER))

    assert pairs(connection) == rows(1, 2) + rows(4, 2 * TOGETHER)


def test_rows_with_a_gap_keep_their_numbers(connection: apsw.Connection) -> None:
    wanted = rows(1, TOGETHER) + rows(TOGETHER + 4, TOGETHER)

    NUMBERED.run(connection, wanted)

    assert pairs(connection) == wanted


def test_a_duplicate_row_is_an_error(connection: apsw.Connection) -> None:
    twice = [*rows(1, TOGETHER - 1), (TOGETHER, 7, "seven again")]

    with pytest.raises(apsw.ConstraintError, match=r"pairs\.left"):
        NUMBERED.run(connection, twice)

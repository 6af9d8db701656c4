"""Rows that are inserted several at a time arrive all, once and in order."""
import apsw
import pytest

from memory.sqlite.rows import TOGETHER, RowInsert


@pytest.mark.parametrize("count", [0, 1, TOGETHER - 1, TOGETHER, TOGETHER + 1, 3 * TOGETHER + 5])
def test_all_rows_are_inserted_in_order(count: int) -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE pairs(left, right)")
    rows = [(number, str(number)) for number in range(count)]

    RowInsert("pairs", 2).run(connection, rows)

    assert list(connection.execute("SELECT left, right FROM pairs ORDER BY rowid")) == rows

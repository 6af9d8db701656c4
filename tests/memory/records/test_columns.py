"""The column lists in memrelay/memory/records/columns.py match the tuples and the tables."""

from contextlib import closing
from pathlib import Path

from memrelay.memory.engine.connection import open_store_file
from memrelay.memory.engine.versions import State
from memrelay.memory.records.columns import EXPORTED, STATE
from memrelay.memory.transfer.export import Exported

# Columns that the store derives: the order of arrival and the additionally indexed text.
DERIVED = {"row", "parts"}


def test_each_column_list_has_the_order_of_its_tuple() -> None:
    assert State._fields == (*STATE, "content")
    assert Exported.__struct_fields__ == EXPORTED


def test_every_column_of_a_record_is_listed(tmp_path: Path) -> None:
    with closing(open_store_file(tmp_path / "store.db")) as connection:
        names = {
            name for (name,) in connection.execute("SELECT name FROM pragma_table_info('records')")
        }

    assert names - DERIVED == {*STATE, "content"}

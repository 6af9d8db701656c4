"""Pages of records by a time or by use, with offset and total."""

from typing import Any, get_args

import pytest

from memrelay.memory.engine.counters import CounterTable
from memrelay.memory.engine.filter_sql import Conditions
from memrelay.memory.engine.store import Store
from memrelay.memory.operations import Context
from memrelay.memory.records.columns import OrderBy
from memrelay.memory.records.reading import literal_kind, take_ordered_page
from tests.memory.builders import NOW, PLENTY, make_guid, perform

CONTEXT = Context(NOW, "tester", PLENTY, make_guid)
TIMES = (3, 1, 2, 1, 3)


def page_of(tx: Store, by: Any, direction: Any = "desc", window: tuple[int, int] = (10, 0)) -> Any:
    conditions = Conditions({"scope": "s"}, given=literal_kind("fact"))
    records, total = take_ordered_page(tx, conditions, (by, direction), window, CONTEXT)
    assert total == len(TIMES)
    return [record.content for record, _ in records]


@pytest.fixture
def filled(tx: Store) -> Store:
    for number, time in enumerate(TIMES):
        given = {"content": str(number), "kind": "fact", "scope": "s"}
        guid = perform(tx, "records.create", now_ms=NOW + time, **given).guid
        for _ in range(time):
            tx.table(CounterTable).count_use(guid, NOW)
        tx.table(CounterTable).note_seen(guid, NOW + time)
    perform(tx, "records.create", content="other", kind="event", scope="s")
    return tx


@pytest.mark.parametrize("by", get_args(OrderBy))
def test_equal_values_keep_the_order_of_arrival(filled: Store, by: str) -> None:
    assert page_of(filled, by, "asc") == ["1", "3", "2", "0", "4"]
    assert page_of(filled, by) == ["4", "0", "2", "3", "1"]


@pytest.mark.parametrize("by", get_args(OrderBy))
def test_pages_have_each_record_once(filled: Store, by: str) -> None:
    pages = [page_of(filled, by, window=(2, offset)) for offset in (0, 2, 4, 6)]

    assert pages == [["4", "0"], ["2", "3"], ["1"], []]

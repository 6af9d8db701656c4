"""The table of items: its queries use the index, and it agrees with a dictionary."""

from collections.abc import Callable, Iterator
from contextlib import closing

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.engine.connection import migrations, register_parts_of
from memrelay.memory.engine.idempotency import register_key_functions
from memrelay.memory.engine.store import Store
from memrelay.memory.models.shared_stores import ITEM_KIND
from memrelay.memory.models.shared_stores.item import Address
from memrelay.memory.models.shared_stores.table import (
    LAST_CHARACTER,
    ItemTable,
    Listing,
    Position,
    end_of_prefix,
)
from tests.memory.models.shared_stores.access_cases import call, open_stores


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with open_stores() as opened:
        call(opened, "items.put", agent="a", store="a", key="k", value=1, ttl_s=1000)
        yield opened


def key_counts(store: Store) -> int:
    table = store.table(ItemTable)
    store.records.hooks[ITEM_KIND].reset()
    return table.count("a")


QUERIES: dict[str, Callable[[Store], object]] = {
    "own": lambda store: store.table(ItemTable).find_to_write(*Address("a", "", "k"), "a"),
    "best": lambda store: store.table(ItemTable).best(Address("a", "", "k"), "a"),
    "best of an owner": lambda store: store.table(ItemTable).best(Address("a", "", "k"), "a", "b"),
    "page": lambda store: list(store.table(ItemTable).page(Listing("a"), None, 10)),
    "prefix": lambda store: list(store.table(ItemTable).page(Listing("a", "", "k"), None, 10)),
    "next page": lambda store: list(
        store.table(ItemTable).page(Listing("a", None, "k"), Position("k", "a", ""), 10)
    ),
    "count": key_counts,
}


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_uses_an_index(store: Store, name: str) -> None:
    statements: list[tuple[str, object]] = []
    connection = store._connection
    with store.transaction():
        connection.exec_trace = lambda _, sql, values: statements.append((sql, values)) or True
        QUERIES[name](store)
        connection.exec_trace = None
        reads = [(sql, values) for sql, values in statements if "FROM records" in sql]
        plans = [
            str(detail)
            for sql, values in reads
            for _, _, _, detail in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)
        ]

    assert reads
    searches = [plan for plan in plans if "SEARCH" in plan or "SCAN" in plan]
    index = "records_scope_kind" if name == "count" else "store_items"
    assert all(
        plan.startswith("SEARCH") and index in plan for plan in searches if "CONSTANT" not in plan
    )
    if "best" not in name:
        assert not any("TEMP B-TREE" in plan for plan in plans)


@given(st.text(max_size=3), st.text(max_size=4))
def test_a_prefix_selects_a_range(prefix: str, key: str) -> None:
    end = end_of_prefix(prefix)

    in_range = key >= prefix and (not end or key < end)

    assert in_range or not key.startswith(prefix)
    assert key.startswith(prefix) or not in_range or not end
    assert not end or prefix + LAST_CHARACTER < end


def test_records_that_have_the_kind_already_get_another_one() -> None:
    with closing(apsw.Connection(":memory:")) as connection:
        register_parts_of(connection)
        register_key_functions(connection)
        for sql in migrations()[:15]:
            connection.execute(sql)
        connection.execute(
            "INSERT INTO records(guid, scope, kind, content, source, created_at, updated_at, key, "
            "owner) VALUES ('1', 's', 'store.item', '', 'x', 1, 1, 'k', 'o'), "
            "('2', 's', 'store.item', '', 'x', 1, 1, 'k', 'o')"
        )

        connection.execute(migrations()[15])

        kinds = connection.execute("SELECT DISTINCT kind FROM records").fetchall()
    assert kinds == [("user.store.item",)]

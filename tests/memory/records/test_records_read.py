"""records.read: exact filters, order of arrival and a window. A result is never cut silently."""

from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.errors import ResultTooLarge
from memrelay.memory.records.deletion import DeleteInput, delete
from memrelay.memory.records.reading import ReadInput, read
from memrelay.memory.records.writing import AppendInput, append, write
from tests.memory.builders import PLENTY, contents, make_record, make_store, read_all, write_all


def test_an_empty_store_has_no_records(tmp_path: Path) -> None:
    assert read_all(make_store(tmp_path)) == []


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, "abcde"),
        ({"order": "desc"}, "edcba"),
        ({"limit": 2}, "ab"),
        ({"limit": 0}, ""),
        ({"limit": 99}, "abcde"),
        ({"offset": 3}, "de"),
        ({"offset": 99}, ""),
        ({"limit": 2, "offset": 1}, "bc"),
        ({"limit": 2, "offset": 1, "order": "desc"}, "dc"),
        ({"limit": 2**63 - 1, "offset": 2**63 - 1}, ""),
    ],
)
def test_order_limit_and_offset_select_a_window(
    tmp_path: Path, wanted: dict[str, Any], expected: str
) -> None:
    store = make_store(tmp_path)
    write_all(store, *"abcde")

    read_back = contents(read_all(store, **wanted))

    assert "".join(read_back) == expected


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"kind": "k"}, ["kind", "all three"]),
        ({"scope": "s"}, ["scope", "all three"]),
        ({"source": "src"}, ["source", "all three"]),
        ({"kind": "k", "scope": "s", "source": "src"}, ["all three"]),
        ({"kind": "K"}, []),
        ({"kind": "k' OR '1'='1"}, []),
        ({"kind": "%"}, []),
    ],
)
def test_filters_are_exact_and_all_must_match(
    tmp_path: Path, filters: dict[str, str], expected: list[str]
) -> None:
    store = make_store(tmp_path)
    write_all(store, "kind", kind="k")
    write_all(store, "scope", scope="s")
    write_all(store, "source", source="src")
    write_all(store, "all three", kind="k", scope="s", source="src")

    assert contents(read_all(store, filters=filters)) == expected


def test_filters_apply_before_the_window(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for number in range(10):
        write_all(store, str(number), kind=("even", "odd")[number % 2])

    odd = contents(read_all(store, filters={"kind": "odd"}, limit=2, offset=1))

    assert odd == ["3", "5"]


def test_an_appended_record_keeps_its_place(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    first, _ = write_all(store, "one", "two")

    with store.transaction() as tx:
        append(tx, AppendInput(make_record("more"), first, {}))

    assert contents(read_all(store)) == ["one\nmore", "two"]


def test_a_new_record_comes_last_even_after_the_last_was_deleted(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    *_, last = write_all(store, "one", "two")
    with store.transaction() as tx:
        delete(tx, DeleteInput(guid=last))
    store.close()
    store = make_store(tmp_path)

    write_all(store, "three")

    assert contents(read_all(store)) == ["one", "three"]


def test_a_result_beyond_the_size_limit_is_rejected_with_the_fix(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *["x" * 1000] * 10)

    with pytest.raises(ResultTooLarge, match="`limit`"):
        read(store, ReadInput(5000))

    assert len(read(store, ReadInput(5000, limit=4))) == 4


def test_a_rejected_read_leaves_the_transaction_usable(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    with store.transaction() as tx:
        for _ in range(100):
            write(tx, make_record("x" * 1000))
        with pytest.raises(ResultTooLarge):
            read(tx, ReadInput(5000))
        write(tx, make_record("after"))

    assert contents(read_all(store, order="desc", limit=1)) == ["after"]


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"scope": "s"},
        {"kind": "k"},
        {"scope": "s", "kind": "k"},
        {"scope": "s", "source": "src"},
    ],
)
def test_a_small_read_costs_the_same_in_a_large_store(
    tmp_path: Path, filters: dict[str, str], order: str
) -> None:
    """Count the steps of SQLite's virtual machine. They do not depend on the machine's load."""
    store = make_store(tmp_path)

    def steps_among(count: int) -> int:
        write_all(store, *["tea"] * count, scope="s", kind="k", source="src")
        with store.transaction() as tx:
            tx.records.flush()
            ticks: list[None] = []
            store._connection.set_progress_handler(lambda: bool(ticks.append(None)), 1)
            found = read(tx, ReadInput(PLENTY, filters, order, limit=3))  # type: ignore[arg-type]
            store._connection.set_progress_handler(None)
        assert len(found) == 3
        return len(ticks)

    among_few = steps_among(10)
    assert steps_among(1000) <= among_few

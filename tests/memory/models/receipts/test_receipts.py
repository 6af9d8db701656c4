"""Receipts in a store: their retention, the pages of a list, and what a receipt names."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memrelay.memory.engine.retention import DAY_MS, delete_expired
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from memrelay.memory.models.receipts import listing as listing_module
from memrelay.memory.models.receipts.listing import ListReceipts, list_receipts
from memrelay.memory.models.receipts.packing import MAX_FOUND
from memrelay.memory.models.receipts.table import ReceiptTable
from memrelay.memory.operations import Context
from tests.memory.builders import NOW, make_store, perform

CONTEXT = Context(NOW, "tester", 1_000_000, str, pipeline="p")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def add(store: Store, at_ms: int, found: list[str], **about: str) -> str:
    with store.transaction() as tx:
        add_receipt(tx, at_ms, found, **about)
        tx.table(ReceiptTable).flush()
    return list_receipts(store, ListReceipts(limit=1), CONTEXT).items[0].id


def add_receipt(tx: Store, at_ms: int, found: list[str], *, input: str = "") -> None:
    read = "records.search", {"query": "tea"}, [(guid, 0.5) for guid in found]
    about = "p", "Ada", "", input, ""
    tx.table(ReceiptTable).add(at_ms, about, (*read, (1, "", "english", "fts")))


def list_all(store: Store, limit: int, **given: str) -> list[str]:
    found, cursor = list[str](), ""
    while True:
        page = list_receipts(store, ListReceipts(limit=limit, cursor=cursor, **given), CONTEXT)
        found += [one.id for one in page.items]
        if page.next_cursor is None:
            return found
        cursor = page.next_cursor


def test_receipts_are_kept_for_their_days(store: Store) -> None:
    add(store, NOW, [])
    kept = add(store, NOW + DAY_MS, [])
    end_ms = NOW + 30 * DAY_MS
    assert delete_expired(store, end_ms, 90, 0, 30).next_ms == end_ms + 1
    assert delete_expired(store, end_ms + 1, 90, 0, 30).gone == 1
    assert list_all(store, 10) == [kept]


@pytest.mark.parametrize("most", [1, 2, 3, 10_000])
@pytest.mark.parametrize("limit", [1, 2, 10])
def test_the_pages_of_a_list_have_each_receipt_once(
    store: Store, monkeypatch: pytest.MonkeyPatch, most: int, limit: int
) -> None:
    monkeypatch.setattr(listing_module, "MAX_READ", most)
    idents = [
        add(store, NOW + number, ["even" if number % 2 == 0 else "odd"], input=str(number // 3))
        for number in range(7)
    ]
    newest = idents[::-1]
    assert list_all(store, limit) == newest
    assert list_all(store, limit, record="even") == newest[::2]
    assert list_all(store, limit, message="1") == newest[1:4]
    assert list_all(store, limit, since=str(NOW + 2), until=str(NOW + 5)) == newest[2:5]


def test_a_receipt_names_the_first_records_in_their_version(store: Store) -> None:
    with store.transaction() as tx:
        guid = perform(tx, "records.create", content="tea").guid
        perform(tx, "records.update", guid=guid, content="green tea")
    add(store, NOW, [guid, *map(str, range(MAX_FOUND))])

    (receipt,) = list_receipts(store, ListReceipts(), CONTEXT).items
    assert (receipt.found[0].guid, receipt.found[0].version, receipt.found[0].score) == (
        guid,
        2,
        0.5,
    )
    assert receipt.found[1].version is None
    assert (len(receipt.found), receipt.left_out, receipt.change) == (MAX_FOUND, 1, 2)


def test_receipts_of_one_batch_name_the_versions_that_each_read_saw(store: Store) -> None:
    """Reads and changes alternate in one transaction, whose receipts share a row."""
    with store.transaction() as tx:
        changed, deleted = (perform(tx, "records.create", content=one).guid for one in "ab")
        add_receipt(tx, NOW, [changed, deleted])
        perform(tx, "records.update", guid=changed, content="c")
        perform(tx, "records.delete", guid=deleted)
        add_receipt(tx, NOW, [changed, deleted])
        tx.records.store_buffered()
        tx.table(ReceiptTable).flush()

    second, first = list_receipts(store, ListReceipts(), CONTEXT).items
    assert [one.version for one in first.found] == [1, 1]
    assert [one.version for one in second.found] == [2, None]
    assert store.connection.execute("SELECT count(*) FROM receipts").get == 1


@pytest.mark.parametrize("given", [{"cursor": "x"}, {"since": "yesterday"}])
def test_an_invalid_cursor_or_time_is_refused(store: Store, given: dict[str, str]) -> None:
    with pytest.raises(Refused):
        list_receipts(store, ListReceipts(**given), CONTEXT)

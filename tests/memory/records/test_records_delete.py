"""records.delete: one record by guid or all of a kind, from the table and the index."""

from pathlib import Path

import pytest

from memrelay.memory.records.deletion import DeleteInput, delete
from memrelay.memory.records.writing import write
from tests.memory.builders import (
    append_to,
    assert_sound,
    contents,
    find,
    make_guid,
    make_record,
    make_store,
    read_all,
    write_all,
)


def test_one_record_is_deleted_by_its_guid(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    first, _ = write_all(store, "green tea", "black tea")

    with store.transaction() as tx:
        deleted = delete(tx, DeleteInput(guid=first))

    assert deleted == 1
    assert contents(read_all(store)) == contents(find(store, "tea")) == ["black tea"]
    assert_sound(store.path)


def test_all_records_of_a_kind_are_deleted(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "tea", "more tea", kind="temp")
    write_all(store, "lasting tea")

    with store.transaction() as tx:
        deleted = delete(tx, DeleteInput(kind="temp"))

    assert deleted == 2
    assert contents(read_all(store)) == contents(find(store, "tea")) == ["lasting tea"]
    assert_sound(store.path)


@pytest.mark.parametrize(
    "unwanted", [DeleteInput(), DeleteInput(guid="unknown"), DeleteInput(kind="nothing")]
)
def test_deleting_an_unknown_record_deletes_nothing(tmp_path: Path, unwanted: DeleteInput) -> None:
    store = make_store(tmp_path)
    write_all(store, "tea")

    with store.transaction() as tx:
        deleted = delete(tx, unwanted)

    assert deleted == 0
    assert contents(read_all(store)) == ["tea"]


def test_a_guid_takes_precedence_over_a_kind(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "tea", kind="temp")

    with store.transaction() as tx:
        deleted = delete(tx, DeleteInput(guid=make_guid(), kind="temp"))

    assert deleted == 0


def test_the_second_delete_finds_nothing(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "tea")

    with store.transaction() as tx:
        counts = [delete(tx, DeleteInput(guid=guid)) for _ in range(2)]

    assert counts == [1, 0]
    assert_sound(store.path)


@pytest.mark.parametrize("by", ["guid", "kind"])
def test_a_record_waiting_to_be_inserted_is_deleted(tmp_path: Path, by: str) -> None:
    store = make_store(tmp_path)

    with store.transaction() as tx:
        guid = write(tx, make_record("tea", kind="temp"))
        deleted = delete(tx, DeleteInput(guid=guid) if by == "guid" else DeleteInput(kind="temp"))
        write(tx, make_record("milk"))

    assert deleted == 1
    assert contents(read_all(store)) == ["milk"]
    assert_sound(store.path)


def test_a_kind_is_deleted_among_indexed_changed_and_waiting_records(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    old, changed = write_all(store, "old", "changed", kind="temp")

    with store.transaction() as tx:
        write(tx, make_record("waiting", kind="temp"))
        append_to(tx, "twice", guid=changed)
        gone = delete(tx, DeleteInput(guid=old))
        rest = delete(tx, DeleteInput(kind="temp"))
        write(tx, make_record("new", kind="temp"))

    assert (gone, rest) == (1, 2)
    assert contents(read_all(store)) == ["new"]
    assert find(store, "twice") == []
    assert_sound(store.path)


def test_a_record_appended_to_and_deleted_leaves_no_word_in_the_index(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "tea")

    with store.transaction() as tx:
        append_to(tx, "milk", guid=guid)
        append_to(tx, "sugar", guid=guid)
        delete(tx, DeleteInput(guid=guid))

    assert find(store, "tea") == find(store, "milk") == []
    assert_sound(store.path)


def test_a_rolled_back_delete_changes_nothing(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "tea", "milk", kind="temp")
    store.begin()
    delete(store, DeleteInput(kind="temp"))

    store.rollback()

    assert contents(read_all(store)) == ["tea", "milk"]
    assert contents(find(store, "tea")) == ["tea"]
    assert_sound(store.path)


def test_the_row_of_a_deleted_record_is_reused_without_its_words(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for word in ("tea", "milk", "sugar"):
        (guid,) = write_all(store, word)
        with store.transaction() as tx:
            delete(tx, DeleteInput(guid=guid))
        store.close()
        store = make_store(tmp_path)

    write_all(store, "cake")

    assert find(store, "tea") == find(store, "sugar") == []
    assert_sound(store.path)

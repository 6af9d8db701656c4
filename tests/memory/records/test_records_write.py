"""records.write: each text becomes a record and is stored unchanged."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.records.record import Record
from memrelay.memory.records.writing import write
from tests.memory.builders import (
    NOW,
    assert_sound,
    contents,
    fresh_store,
    make_record,
    make_store,
    read_all,
    write_all,
)


def test_a_record_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    new = make_record("tea", scope="s", kind="k", source="src", tags=("b", "a"), now_ms=NOW)

    with store.transaction() as tx:
        guid = write(tx, new)

    assert guid == new.guid
    assert read_all(store) == [Record(guid, "s", "k", "tea", "src", '["b","a"]', NOW, NOW)]


def test_a_record_can_be_read_before_the_commit(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    with store.transaction() as tx:
        write(tx, make_record("tea"))
        seen = contents(read_all(tx))

    assert seen == ["tea"]


def test_the_same_text_twice_is_two_records(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    first, second = write_all(store, "tea", "tea")

    assert first != second
    assert contents(read_all(store)) == ["tea", "tea"]


def test_committed_records_survive_reopening(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "tea")
    store.close()

    again = make_store(tmp_path)

    assert contents(read_all(again)) == ["tea"]


def test_a_rolled_back_guid_can_be_written_again(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    new = make_record("tea")
    store.begin()
    write(store, new)
    store.rollback()

    with store.transaction() as tx:
        write(tx, new)

    assert contents(read_all(store)) == ["tea"]
    assert_sound(store.path)


def test_many_records_keep_their_order(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    texts = [f"note {number}" for number in range(2000)]

    write_all(store, *texts)

    assert contents(read_all(store)) == texts
    assert_sound(store.path)


@pytest.mark.parametrize(
    "text", [" ", "\x00", "a\x00b", "\n", "'; DROP TABLE records; --", "🫖" * 1000, "x" * (1 << 20)]
)
def test_hostile_texts_are_stored_unchanged(tmp_path: Path, text: str) -> None:
    store = make_store(tmp_path)

    write_all(store, text)

    assert contents(read_all(store)) == [text]
    assert_sound(store.path)


@given(st.lists(st.tuples(st.text(), st.lists(st.text(), unique=True)), max_size=5))
def test_any_text_and_tags_are_read_back_unchanged(records: list[tuple[str, list[str]]]) -> None:
    with fresh_store() as store:
        with store.transaction() as tx:
            guids = [write(tx, make_record(text, tags=tuple(tags))) for text, tags in records]

        back = read_all(store)

        assert [record.guid for record in back] == guids
        assert contents(back) == [text for text, _ in records]
        assert_sound(store.path)

"""records.append: the oldest match is appended to; without a match a record is created."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.errors import ResultTooLarge
from memrelay.memory.operations.records_append import AppendInput, append
from memrelay.memory.operations.records_write import write
from tests.memory.builders import (
    NOW,
    append_to,
    assert_sound,
    contents,
    find,
    fresh_store,
    make_guid,
    make_record,
    make_store,
    read_all,
    write_all,
)


def test_text_is_appended_to_the_record_with_the_guid(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    _, second = write_all(store, "one", "two")

    with store.transaction() as tx:
        answer = append_to(tx, "more", guid=second)

    assert answer == (second, True)
    assert contents(read_all(store)) == ["one", "two\nmore"]


def test_an_append_changes_only_content_and_updated_at(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "tea", tags=("a",), kind="k")
    (before,) = read_all(store)

    with store.transaction() as tx:
        append_to(
            tx,
            "milk",
            guid=guid,
            now_ms=NOW + 5,
            kind="other",
            tags=("b",),
            scope="other",
            source="other",
        )

    (after,) = read_all(store)
    assert after == before._replace(content="tea\nmilk", updated_at=NOW + 5)


def test_the_separator_joins_the_texts(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "tea")

    with store.transaction() as tx:
        append(tx, AppendInput(make_record("milk"), guid, {}, separator=", "))
        append(tx, AppendInput(make_record("!"), guid, {}, separator=""))

    assert contents(read_all(store)) == ["tea, milk!"]


def test_an_append_beyond_the_result_size_is_rejected_without_a_change(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "é" * 300)

    with store.transaction() as tx:
        append(tx, AppendInput(make_record("é" * 90), guid, {}, most_bytes=1000))
        with pytest.raises(
            ResultTooLarge, match=f"record {guid} would have 1002 bytes.*append to another record"
        ):
            append(tx, AppendInput(make_record("é" * 10), guid, {}, most_bytes=1000))

    assert contents(read_all(store)) == ["é" * 300 + "\n" + "é" * 90]


def test_an_unknown_guid_falls_back_to_the_filters(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "tea", kind="log")

    with store.transaction() as tx:
        answer = append_to(tx, "milk", guid=make_guid(), filters={"kind": "log"})

    assert answer == (guid, True)


def test_the_oldest_match_is_appended_to(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    oldest, _ = write_all(store, "one", "two", kind="log")

    with store.transaction() as tx:
        first = append_to(tx, "a", filters={"kind": "log"})
        second = append_to(tx, "b", filters={"kind": "log"})

    assert first == second == (oldest, True)
    assert contents(read_all(store)) == ["one\na\nb", "two"]


def test_all_filters_must_match(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "kind", kind="log", scope="other")
    write_all(store, "scope", kind="other", scope="s")

    with store.transaction() as tx:
        guid, found = append_to(
            tx, "new", filters={"kind": "log", "scope": "s"}, kind="log", scope="s", tags=("t",)
        )

    assert not found
    new = read_all(store)[-1]
    assert (new.guid, new.content, new.kind, new.scope, new.tags) == (
        guid,
        "new",
        "log",
        "s",
        '["t"]',
    )


def test_without_guid_and_filters_each_append_creates_a_record(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    with store.transaction() as tx:
        answers = [append_to(tx, "tea") for _ in range(2)]

    assert [found for _, found in answers] == [False, False]
    assert contents(read_all(store)) == ["tea", "tea"]


def test_a_record_waiting_to_be_inserted_is_appended_to(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    with store.transaction() as tx:
        guid = write(tx, make_record("tea", kind="log"))
        append_to(tx, "milk", guid=guid)
        append_to(tx, "sugar", filters={"kind": "log"})

    assert contents(read_all(store)) == contents(find(store, "milk sugar")) == ["tea\nmilk\nsugar"]
    assert_sound(store.path)


def test_an_appended_record_is_found_by_old_and_new_words_across_transactions(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "tea")

    for word in ("milk", "sugar", "cake"):
        with store.transaction() as tx:
            append_to(tx, word, guid=guid)

    assert len(find(store, "tea milk sugar cake")) == 1
    assert_sound(store.path)


def test_a_rollback_undoes_an_append(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "tea")
    store.begin()
    append_to(store, "milk", guid=guid, now_ms=NOW + 1)

    store.rollback()

    (record,) = read_all(store)
    assert (record.content, record.updated_at) == ("tea", NOW)
    assert_sound(store.path)


@given(st.lists(st.text(), min_size=1, max_size=6), st.text(max_size=3))
def test_repeated_appends_equal_a_join(texts: list[str], separator: str) -> None:
    with fresh_store() as store:
        for text in texts:
            with store.transaction() as tx:
                append(
                    tx, AppendInput(make_record(text, kind="log"), "", {"kind": "log"}, separator)
                )

        assert contents(read_all(store)) == [separator.join(texts)]
        assert_sound(store.path)

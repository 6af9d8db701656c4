"""records.append: the oldest match is appended to; without a match a record is created."""

from contextlib import closing, suppress
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memrelay.memory.engine.appends import LONG, MAX_RECORDS
from memrelay.memory.engine.copy import inspect
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import ResultTooLarge
from memrelay.memory.records.writing import AppendInput, append, write
from memrelay.memory.transfer.export import export_lines
from memrelay.worker.background.index_merge import merge_appended
from tests.memory.builders import (
    MEMORY_ID,
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


LINE = "rain and tea with userName in 1,000 cups"


def grow(store: Store, guid: str, *texts: str) -> None:
    """Append each text in its own transaction."""
    for text in texts:
        with store.transaction() as tx:
            append_to(tx, text, guid=guid)


def long_store(root: Path) -> tuple[Store, str]:
    """Return a store with a long record, and its guid."""
    store = make_store(root)
    (guid,) = write_all(store, "\n".join([LINE] * (2 * LONG // len(LINE))))
    return store, guid


def test_an_append_to_a_long_record_stores_only_the_new_text(tmp_path: Path) -> None:
    store, guid = long_store(tmp_path)

    grow(store, guid, "first", "second")

    with closing(apsw.Connection(store.path)) as outside:
        stored = outside.execute("SELECT length(content) FROM records").get
        texts = outside.execute("SELECT text FROM appended ORDER BY n").fetchall()
        assert texts == [("\nfirst",), ("\nsecond",)]
        (record,) = read_all(store)
        assert record.content.endswith("cups\nfirst\nsecond")
        assert len(record.content) == stored + len("\nfirst\nsecond")
        assert outside.execute("SELECT count(*) FROM appended").get == 0
    assert_sound(store.path)


def test_a_search_finds_phrases_across_the_border_of_an_append(tmp_path: Path) -> None:
    store, guid = long_store(tmp_path)

    grow(store, guid, "zebra crossing")

    assert [hit.guid for hit in find(store, '"cups zebra" crossing')] == [guid]
    assert [hit.guid for hit in find(store, "zebra", mode="hybrid")] == [guid]


def test_a_reopened_store_continues_to_append_to_a_long_record(tmp_path: Path) -> None:
    store, guid = long_store(tmp_path)
    grow(store, guid, "first")
    store.close()

    store = make_store(tmp_path)
    grow(store, guid, "second")
    with suppress(ZeroDivisionError), store.transaction() as tx:
        append_to(tx, "undone", filters={"kind": "observation"})
        1 / 0  # noqa: B018
    with store.transaction() as tx:
        append_to(tx, "third", filters={"kind": "observation"})

    (record,) = read_all(store)
    assert record.content.endswith("\nfirst\nsecond\nthird")
    assert inspect(Path(store.path)).faults == []


def test_the_history_of_a_long_record_has_every_append(tmp_path: Path) -> None:
    store, guid = long_store(tmp_path)
    (before,) = contents(read_all(store))

    grow(store, guid, "first", "second")

    place = store.records.by_guid(guid)
    assert place is not None
    assert place.state.number == 3
    versions = store.records.versions.of(guid, place.content, place.state.number)
    assert [version.state.content for version in versions] == [f"{before}\nfirst", before]


def test_texts_beyond_the_bound_are_merged_at_the_commit(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    guids = write_all(store, *["x" * LONG] * (MAX_RECORDS + 2))

    with store.transaction() as tx:
        for guid in guids:
            append_to(tx, "more", guid=guid)

    assert len(store.records.appends.rows()) == MAX_RECORDS
    assert [one[-5:] for one in contents(read_all(store))] == ["\nmore"] * len(guids)


def run_call(store: Store, guid: str, expected: str, call: str, text: str) -> tuple[str, str]:
    """Run one call in a transaction. Return the guid and the expected content after it."""
    with store.transaction() as tx:
        if call in ("append", "undo"):
            append_to(tx, text, guid=guid)
        if call == "undo":
            raise ZeroDivisionError
        if call == "read":
            assert contents(read_all(tx)) == [expected]
        if call == "find":
            assert contents(find(tx, "tea")) == [expected]
        if call == "replace":
            tx.records.delete_all({"guid": guid})
            guid = write(tx, make_record(expected))
    return guid, f"{expected}\n{text}" if call == "append" else expected


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("append", "read", "find", "undo", "replace")), st.text("tea bü")
        ),
        max_size=12,
    )
)
def test_a_long_record_equals_a_plain_string_in_any_order_of_calls(
    calls: list[tuple[str, str]],
) -> None:
    with fresh_store() as store:
        expected = "tea " * (LONG // 4)
        (guid,) = write_all(store, expected)
        for call, text in calls:
            with suppress(ZeroDivisionError):
                guid, expected = run_call(store, guid, expected, call, text)
        assert contents(read_all(store)) == [expected]
        assert inspect(Path(store.path)).faults == []


def test_an_export_has_the_appended_texts(tmp_path: Path) -> None:
    store, guid = long_store(tmp_path)
    grow(store, guid, "first")
    store.close()

    lines = export_lines(Path(store.path), MEMORY_ID, NOW)
    (text,) = [line.record.content or "" for line in lines if line.record is not None]

    assert text.endswith("\nfirst")


def test_an_idle_worker_merges_appended_texts(tmp_path: Path) -> None:
    store, guid = long_store(tmp_path)
    grow(store, guid, "first")

    assert merge_appended(store)

    assert not merge_appended(store)
    assert not store.records.appends
    assert_sound(store.path)

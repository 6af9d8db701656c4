"""The operations on records, as every face calls them."""

from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import RecordNotFound, Refused, ResultTooLarge, VersionConflict
from memrelay.memory.records.reading import RecordPage
from tests.memory.builders import (
    MEMORY_ID,
    NOW,
    assert_sound,
    contents,
    find,
    fresh_store,
    make_store,
    perform,
    write_all,
)

LATER = NOW + 1


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_store(tmp_path)


def replace_record(store: Store, guid: str) -> str:
    """Create a new record and delete the one with the guid. Return the deleted content."""
    with store.transaction() as tx:
        perform(tx, "records.create", content="new")
        gone = str(perform(tx, "records.get", guid=guid).content)
        perform(tx, "records.delete", guid=guid)
    return gone


def contents_of(page: RecordPage) -> list[str]:
    return [item.content for item in page.items]


def test_a_record_is_created_with_given_values_and_defaults(store: Store) -> None:
    with store.transaction() as tx:
        made = perform(tx, "records.create", content="tea", tags=[" a", "b", "a"])

    assert (made.scope, made.kind, made.source, made.tags) == (
        MEMORY_ID,
        "observation",
        "tester",
        ("a", "b"),
    )
    assert (made.created_at, made.updated_at) == (
        "2023-11-14T22:13:20.000Z",
        "2023-11-14T22:13:20.000Z",
    )
    assert perform(store, "records.get", guid=made.guid) == made


def test_an_unknown_guid_is_reported(store: Store) -> None:
    for name, more in (
        ("records.get", {}),
        ("records.update", {"content": "x"}),
        ("records.delete", {}),
        ("records.append", {"content": "x"}),
    ):
        with store.transaction() as tx, pytest.raises(RecordNotFound, match="'unknown'"):
            perform(tx, name, guid="unknown", **more)


def test_a_record_beyond_the_result_size_is_rejected(store: Store) -> None:
    small, large = write_all(store, "tea", "x" * 1000)

    assert perform(store, "records.get", guid=small, result_bytes=500).content == "tea"
    with pytest.raises(ResultTooLarge, match="1000 bytes"):
        perform(store, "records.get", guid=large, result_bytes=500)
    with store.transaction() as tx, pytest.raises(ResultTooLarge):
        perform(tx, "records.update", guid=large, kind="k", result_bytes=500)
    with pytest.raises(ResultTooLarge, match="limit"):
        perform(store, "records.search", query="x" * 1000, result_bytes=500)


def test_a_list_can_continue_after_a_record_that_is_too_large(store: Store) -> None:
    write_all(store, "one", "x" * 1000, "three")

    first = perform(store, "records.list", result_bytes=500)
    with pytest.raises(ResultTooLarge, match="cursor 2 continues") as error:
        perform(store, "records.list", result_bytes=500, cursor=first.next_cursor)

    assert (contents_of(first), first.total, error.value.code) == (["one"], 3, "too_large")
    assert contents_of(perform(store, "records.list", result_bytes=500, cursor="2")) == ["three"]


def test_long_sources_count_toward_the_page_size(store: Store) -> None:
    guids = write_all(store, "one", "two", "three", source="u" * 1000)

    page = perform(store, "records.list", result_bytes=2600)
    with pytest.raises(ResultTooLarge, match="limit"):
        perform(store, "records.search", query="one kind:observation", result_bytes=1100)

    assert [item.guid for item in page.items] == guids[:2] and page.next_cursor == "2"


@pytest.mark.parametrize("character", ["漢", "\x01", '"', "é"])
def test_pages_stay_within_the_limit_as_escaped_json(store: Store, character: str) -> None:
    (guid, *_) = write_all(store, *[character * 2000] * 8)
    for number in range(8):
        with store.transaction() as tx:
            perform(tx, "records.update", guid=guid, content=f"{number} {character * 2000}")

    for name, which in (("records.list", {}), ("records.history", {"guid": guid})):
        pages, cursor = [], ""
        while cursor is not None:
            pages.append(perform(store, name, result_bytes=20_000, cursor=cursor, **which))
            cursor = pages[-1].next_cursor
        assert max(len(orjson.dumps(page)) for page in pages) <= 20_000
        assert sum(len(page.items) for page in pages) == pages[0].total

    with pytest.raises(ResultTooLarge, match="limit"):
        perform(store, "records.search", query="kind:observation", limit=8, result_bytes=15_000)


def test_one_record_is_returned_even_if_escaping_makes_it_too_long(store: Store) -> None:
    (guid,) = write_all(store, "\n" * 2000)

    assert perform(store, "records.get", guid=guid, result_bytes=2500).guid == guid
    assert perform(store, "records.list", result_bytes=2500).items[0].guid == guid
    assert (
        perform(store, "records.history", guid=guid, result_bytes=2500).items[0].record.guid == guid
    )
    assert (
        perform(store, "records.search", query="kind:observation", result_bytes=2500)
        .items[0]
        .record.guid
        == guid
    )


def test_every_change_gives_a_new_version_even_within_one_millisecond(store: Store) -> None:
    (guid,) = write_all(store, "tea")
    before = perform(store, "records.get", guid=guid)
    changes = (
        ("records.update", {"content": "milk"}),
        ("records.update", {"content": "tea"}),
        ("records.update", {"expires_at": "2100-01-01"}),
        ("records.update", {"expires_at": ""}),
        ("records.restore", {"number": 2}),
        ("records.restore", {"number": 3}),
        ("records.delete", {}),
        ("records.restore", {}),
    )

    versions = [before.version]
    for name, change in changes:
        with store.transaction() as tx:
            after = perform(tx, name, guid=guid, if_version=[versions[-1]], **change)
        versions += [after.version] if after else []

    assert (after.content, len(set(versions))) == ("tea", len(changes))
    with store.transaction() as tx, pytest.raises(VersionConflict):
        perform(tx, "records.delete", guid=guid, if_version=[before.version])


def test_a_history_can_continue_after_a_state_that_is_too_large(store: Store) -> None:
    (guid,) = write_all(store, "one")
    for content in ("x" * 1000, "three"):
        with store.transaction() as tx:
            perform(tx, "records.update", guid=guid, content=content)

    first = perform(store, "records.history", guid=guid, result_bytes=500)
    with pytest.raises(ResultTooLarge, match="cursor 2 continues"):
        perform(store, "records.history", guid=guid, result_bytes=500, cursor=first.next_cursor)

    assert [state.number for state in first.items] == [3] and first.total == 3
    assert [
        state.number
        for state in perform(
            store, "records.history", guid=guid, result_bytes=500, cursor="2"
        ).items
    ] == [1]


def test_a_list_applies_all_filters_and_tags(store: Store) -> None:
    write_all(store, "one", kind="a", tags=("x", "y"))
    write_all(store, "two", kind="a", tags=("x",), scope="s")
    write_all(store, "three", kind="b", tags=("y",), source="q")

    def listed(**wanted: object) -> tuple[list[str], int]:
        page = perform(store, "records.list", **wanted)
        return contents_of(page), page.total

    assert listed(kind="a") == (["one", "two"], 2)
    assert listed(tags=["x", "y"]) == (["one"], 1)
    assert listed(scope="s") == (["two"], 1)
    assert listed(source="q", kind="b") == (["three"], 1)
    assert listed(order="desc", limit=2) == (["three", "two"], 3)
    assert listed(kind="none") == ([], 0)


@settings(max_examples=60)
@given(
    st.integers(0, 12),
    st.integers(1, 5),
    st.sampled_from(["asc", "desc"]),
    st.lists(st.integers(0, 99), max_size=6),
)
def test_pages_contain_each_record_once_during_concurrent_changes(
    count: int, limit: int, order: str, deleted: list[int]
) -> None:
    with fresh_store() as store:
        guids = write_all(store, *map(str, range(count)))
        seen: list[str] = []
        gone: set[str] = set()
        cursor: str | None = ""
        while cursor is not None:
            page = perform(store, "records.list", limit=limit, order=order, cursor=cursor)
            seen += contents_of(page)
            cursor = page.next_cursor
            if guids and deleted:
                gone.add(replace_record(store, guids.pop(deleted.pop() % len(guids))))

        old = [content for content in seen if content != "new"]
        assert len(old) == len(set(old))
        assert set(old) | gone == {str(number) for number in range(count)}
        assert old == sorted(old, key=int, reverse=order == "desc")


def test_an_invalid_cursor_is_rejected(store: Store) -> None:
    for cursor in ("x", "9" * 19, "-1", "\u0661"):
        with pytest.raises(Refused, match="cursor"):
            perform(store, "records.list", cursor=cursor)


def test_an_update_changes_only_the_given_fields_and_the_version(store: Store) -> None:
    with store.transaction() as tx:
        before = perform(tx, "records.create", content="tea with milk", tags=["a"])
        after = perform(
            tx, "records.update", guid=before.guid, content="coffee", tags=[], now_ms=LATER
        )

    assert (after.content, after.tags, after.kind, after.created_at) == (
        "coffee",
        (),
        before.kind,
        before.created_at,
    )
    assert after.updated_at > before.updated_at and after.version != before.version
    assert perform(store, "records.get", guid=before.guid) == after
    assert (contents(find(store, "milk")), contents(find(store, "coffee"))) == ([], ["coffee"])
    assert_sound(store.path)


def test_an_update_without_a_change_keeps_the_version(store: Store) -> None:
    with store.transaction() as tx:
        before = perform(tx, "records.create", content="tea")
        assert (
            perform(tx, "records.update", guid=before.guid, content="tea", now_ms=LATER) == before
        )


def test_kind_scope_and_source_can_be_updated_without_the_content(store: Store) -> None:
    (guid,) = write_all(store, "tea")

    with store.transaction() as tx:
        perform(tx, "records.update", guid=guid, kind="fact", scope="s", source="q", now_ms=LATER)

    (found,) = perform(store, "records.search", query="tea", kind="fact", scope="s").items
    assert (found.record.kind, found.record.scope, found.record.source, found.record.content) == (
        "fact",
        "s",
        "q",
        "tea",
    )


def test_an_edit_with_a_version_requires_the_current_version(store: Store) -> None:
    with store.transaction() as tx:
        first = perform(tx, "records.create", content="tea")
        second = perform(
            tx,
            "records.update",
            guid=first.guid,
            content="coffee",
            now_ms=LATER,
            if_version=[first.version],
        )
    for name in ("records.update", "records.delete"):
        with store.transaction() as tx, pytest.raises(VersionConflict, match=second.version):
            perform(tx, name, guid=first.guid, if_version=[first.version])

    with store.transaction() as tx:
        perform(tx, "records.delete", guid=first.guid, if_version=["other", second.version])
    assert perform(store, "records.list").total == 0


def test_an_append_uses_the_guid_then_the_oldest_match_then_a_new_record(
    store: Store,
) -> None:
    with store.transaction() as tx:
        made = perform(tx, "records.append", content="one", kind="log", tags=["a"])
        again = perform(tx, "records.append", content="two", kind="log")
        by_guid = perform(tx, "records.append", content="three", guid=made.guid, separator=" ")
        alone = perform(tx, "records.append", content="four")

    assert (made.created, again, by_guid.guid, alone.created) == (
        True,
        type(made)(made.guid, False),
        made.guid,
        True,
    )
    assert perform(store, "records.get", guid=made.guid).content == "one\ntwo three"


def test_a_search_returns_records_with_scores_in_order(store: Store) -> None:
    write_all(store, "tea", "tea tea tea", "coffee", tags=("a",))

    found = perform(store, "records.search", query="tea", tags=["a"], limit=2).items

    assert {hit.record.content for hit in found} == {"tea", "tea tea tea"}
    assert found[0].score >= found[1].score > 0
    with pytest.raises(Refused, match="words"):
        perform(store, "records.search", query="word " * 3000 + " ".join(map(str, range(3000))))
